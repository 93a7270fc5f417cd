"""Reads runs from outside: events, conversation and status, of open and of closed ones."""
