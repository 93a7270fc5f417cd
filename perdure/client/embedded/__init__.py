"""The embedded Temporal server: one per data folder, shared by the processes that use it."""
