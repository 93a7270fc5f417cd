"""The `.prompty` format: from a file to a typed agent, and from an agent and its inputs to messages
(§2 to §6).
"""
