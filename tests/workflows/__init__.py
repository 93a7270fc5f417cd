"""The workflows, module by module; what happens to whole runs is in `tests/runs`."""
