"""The kind of tool `a2a`: a remote agent that speaks the A2A protocol, called as a tool (https://a2a-protocol.org)."""
