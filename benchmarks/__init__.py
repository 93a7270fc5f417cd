"""Measurements, each as a ratio to a floor taken in the same run: `make bench`."""
