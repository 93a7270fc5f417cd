"""`kind: mcp`: the tools of a server that speaks the Model Context Protocol, over stdio or
streamable HTTP.
"""
