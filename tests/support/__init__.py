"""What several files of tests share: agents and stages, servers and worker processes, commands,
other systems.
"""
