"""Tests of the command line, each command in a process of its own."""
