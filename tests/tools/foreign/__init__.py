"""Declarations of what others have on Temporal, without a server."""
