"""The parts of a session: what it takes, the turn under way, what it shows and what it carries
on.
"""
