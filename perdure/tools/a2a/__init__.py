"""The kind of tool `a2a`: an agent elsewhere that speaks the A2A protocol, called as a tool (https://a2a-protocol.org)."""
