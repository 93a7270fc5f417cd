"""Reads back Temporal's record of a run: one link, the chain of links, all messages."""
