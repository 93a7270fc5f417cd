"""`perdure doctor`: finds faults of a server, its workers and its runs, and the commands that fix
them.
"""
