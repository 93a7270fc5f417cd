"""An MCP server over stdio with one tool, whose calls may not be repeated."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server

from .tools import note

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


async def _list(ctx: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[types.Tool(name="write_note", description="Write it down.", input_schema=TEXT)]
    )


async def _call(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    text = str((params.arguments or {})["text"])
    note("start", "write_note", text)
    await asyncio.sleep(0.1)
    note("end", "write_note", text)
    return types.CallToolResult(content=[types.TextContent(text="written")])


async def main() -> None:
    server = Server("notes", on_list_tools=_list, on_call_tool=_call)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
