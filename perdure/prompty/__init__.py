"""The `.prompty` asset: from a file to a typed agent, and from an agent and inputs to messages (§2 to §6)."""
