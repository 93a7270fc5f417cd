"""Long tests of what SIGKILL does, again and again; `make chaos` runs them, the default run leaves
them out.
"""
