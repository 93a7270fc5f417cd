"""Settings of runs in agents' files: perdure's own, those of other systems, other agents, and
mocks.
"""
