"""What Temporal recorded of a run, read back: one link, the chain of links, everything that was
said.
"""
