"""The contract between client, workflow and worker: names, arguments and results, without
behaviour.
"""
