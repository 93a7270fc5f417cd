"""Long tests of what SIGKILL does, again and again; `make kills` runs them, the default run leaves
them out.
"""
