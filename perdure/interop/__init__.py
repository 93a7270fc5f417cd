"""Runs by the names of other systems: what programs that were written for those read."""
