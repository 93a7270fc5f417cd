"""The embedded Temporal server: starts it, shares it between processes, ends it with the last of
them.
"""
