"""How much is read of what an MCP server sends."""

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""For one message, such as a tool's answer: a result's texts and media (`SizeLimits`), however JSON writes them."""
MAX_PAGES = 100
"""How many pages a list of tools may have."""
