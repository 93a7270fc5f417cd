"""How much is read of what an MCP server sends."""

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""For one message, such as a tool's answer; a tool result is much smaller."""
MAX_PAGES = 100
"""How many pages a list of tools may have."""
