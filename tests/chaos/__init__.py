"""Long tests that kill workers and servers again and again: `make chaos`."""
