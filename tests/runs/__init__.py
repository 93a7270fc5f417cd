"""Whole runs on a real server, one file for each thing that may happen to them."""
