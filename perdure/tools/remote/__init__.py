"""Remote agents as tools: `kind: a2a` and `kind: delegate`."""
