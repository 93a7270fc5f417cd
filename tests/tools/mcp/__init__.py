"""MCP servers of the official package, over stdio and HTTP, and what becomes of their tools."""
