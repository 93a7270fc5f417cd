"""Runs in the terms of other systems, for programs that were written for these."""
