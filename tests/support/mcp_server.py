"""An MCP server: as a process over stdio (`python -m tests.support.mcp_server`), or within another
program.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server

from perdure.json_types import JsonObject

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
READ_ONLY = types.ToolAnnotations(read_only_hint=True)
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NONE: JsonObject = {"type": "object"}
PAGES = [
    [
        types.Tool(
            name="echo", description="Says it again.", input_schema=TEXT, annotations=READ_ONLY
        ),
        types.Tool(name="write.it", description="Writes it down.", input_schema=TEXT),
        types.Tool(name="fail", input_schema=NONE),
        types.Tool(name="media", input_schema=NONE),
        types.Tool(
            name="structured",
            input_schema=NONE,
            output_schema={"type": "object", "required": ["other"]},
        ),
    ],
    [
        types.Tool(name="crash", input_schema=NONE),
        types.Tool(name="wait", input_schema=TEXT),
        types.Tool(name="ask", input_schema=NONE),
        types.Tool(name="environment", input_schema=NONE),
        types.Tool(name="process", input_schema=NONE),
        types.Tool(name="broken", input_schema=NONE),
    ],
]


async def list_tools(
    ctx: Any, params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    if params is not None and params.cursor == "second":
        return types.ListToolsResult(tools=PAGES[1])
    return types.ListToolsResult(tools=PAGES[0], next_cursor="second")


def said(*texts: str, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text) for text in texts], **more)


async def call_tool(
    ctx: Any, params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    text = str((params.arguments or {}).get("text", ""))
    match params.name:
        case "echo":
            return said(text)
        case "write.it":
            note(text)
            return said("written")
        case "fail":
            return said("no such customer", is_error=True)
        case "media":
            return types.CallToolResult(content=media())
        case "structured":
            return types.CallToolResult(content=[], structured_content={"degrees": 21})
        case "crash":
            os._exit(3)
        case "wait":
            return await wait(ctx, text)
        case "ask":
            return book(params)
        case "process":
            return said(str(os.getpid()))
        case "environment":
            return said(
                *(f"{name}={value}" for name, value in sorted(os.environ.items())), os.getcwd()
            )
    raise ValueError("the text of this is hidden")


SEAT = {"type": "string", "enum": ["aisle", "window"]}
WHO = {"name": {"type": "string"}, "age": {"type": "integer"}}


def book(params: types.CallToolRequestParams) -> types.CallToolResult | types.InputRequiredResult:
    """Ask for the seat and the passenger, then whether to pay, and say what was answered."""
    answers = params.input_responses or {}
    if not answers:
        forms = {"seat": ("Which seat?", {"seat": SEAT}), "who": ("Who flies?", WHO)}
        return types.InputRequiredResult(
            input_requests={key: _form(*each) for key, each in forms.items()}, request_state="first"
        )
    if "who" in answers:
        told = json.dumps(
            {key: each.model_dump(exclude_none=True) for key, each in answers.items()}
        )
        return types.InputRequiredResult(
            input_requests={"pay": _form("Pay 9 euros?", {})}, request_state=told
        )
    note("booked")
    return said(f"{params.request_state} {answers['pay'].model_dump(exclude_none=True)}")


def _form(message: str, properties: JsonObject) -> types.ElicitRequest:
    schema = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(message=message, requested_schema=schema)
    )


async def wait(ctx: Any, folder: str) -> types.CallToolResult:
    """Note its beginning in the folder, report progress, and wait for a file `go` there; note a
    cancellation.
    """
    place = Path(folder)
    with (place / "began").open("a") as began:
        began.write(f"{os.getpid()}\n")
    try:
        for number in range(10_000):
            if (place / "go").exists():
                return said(f"went after {number > 0}")
            await ctx.session.report_progress(number, None, f"step {number}")
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        (place / "cancelled").touch()
        raise
    return said("nobody came")


def media() -> list[types.ContentBlock]:
    text = types.TextResourceContents(uri="file:///notes.txt", text="Buy milk.")
    blob = types.BlobResourceContents(
        uri="file:///a.bin", blob="AAEC", mime_type="application/x-thing"
    )
    return [
        types.TextContent(text="All of it:"),
        types.ImageContent(data=PIXEL, mime_type="image/png"),
        types.AudioContent(data="AAEC", mime_type="audio/wav"),
        types.ResourceLink(
            name="report", uri="https://example.com/r.pdf", mime_type="application/pdf", size=1200
        ),
        types.EmbeddedResource(resource=text),
        types.EmbeddedResource(resource=blob),
        types.ImageContent(data="no base64!", mime_type="image/png"),
    ]


def note(text: str) -> None:
    """Add a line to the file that the environment names: an effect that can be counted."""
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(text + "\n")


def make_server() -> Server[Any]:
    return Server("tests", on_list_tools=list_tools, on_call_tool=call_tool)


async def main() -> None:
    print("starting\tup", file=sys.stderr, flush=True)
    server = make_server()
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
