"""Tests of the callers' side: connection, embedded server, command line."""
