"""What files say about runs: settings by their own names and by those of other systems, other agents, mocks."""
