"""Far ends of four kinds of tools on loopback: MCP, OpenAPI, A2A and Chat Completions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

from perdure.json_types import JsonObject

from . import a2a_odd as odd
from .a2a_agents import served
from .mcp_scripted import Scripted
from .openapi_specs import one
from .peers import Peer
from .raw_server import RawServer, ok, raw_server


class FarEnds(NamedTuple):
    """The declared tools `web`, `api`, `remote` and `peer`, and two of their servers."""

    tools: list[JsonObject]
    peer: Peer
    api: RawServer


@asynccontextmanager
async def far_ends(
    mcp: Scripted, answer: odd.Answer, method: str, reply: bytes, **operation: Any
) -> AsyncIterator[FarEnds]:
    """Serve them; the remote agent answers by `answer`, the API's one operation with `reply`."""
    peer = Peer()
    async with AsyncExitStack() as ends:
        apps = mcp.app, odd.server(answer, odd.card()), peer
        web, agent, delegate = [await ends.enter_async_context(served(app)) for app in apps]
        api = await ends.enter_async_context(raw_server())
        api.answers["/items"] = reply
        document = one("/items", method, servers=[{"url": api.url}], **operation)
        api.answers["/openapi.json"] = ok(json.dumps(document).encode())
        connections: JsonObject = {
            "web": {"kind": "mcp", "connection": {"kind": "key", "endpoint": f"{web}/mcp"}},
            "api": {"kind": "openapi", "specification": f"{api.url}/openapi.json"},
            "remote": {"kind": "a2a", "connection": {"kind": "anonymous", "endpoint": agent}},
            "peer": {
                "kind": "delegate",
                "connection": {"kind": "anonymous", "endpoint": delegate},
                "options": {"protocol": "openai"},
            },
        }
        yield FarEnds([{"name": name, **each} for name, each in connections.items()], peer, api)
