"""Reads runs from outside: their events, conversation and status, whether they are open or
closed.
"""
