"""Tools that are no functions of the worker, end to end: each kind on a real dev server."""
