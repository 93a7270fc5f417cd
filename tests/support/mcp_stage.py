"""What the tests of MCP tools share: declarations, and calls of the functions that they offer."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perdure.agents import Agent
from perdure.json_types import JsonObject
from perdure.messages import ToolResult
from perdure.tools.context import ToolContext
from perdure.tools.kind import Asking, KindCall, Offering
from perdure.tools.mcp.declaration import MAX_DISCOVERY_SECONDS
from perdure.tools.mcp.kind import McpKind

ROOT = Path(__file__).parents[2]


def on_stdio(*, env: dict[str, str] | None = None, **fields: Any) -> JsonObject:
    """The declaration of the test server as a process."""
    options = {
        "command": sys.executable,
        "args": ["-m", "tests.support.mcp_server"],
        "env": {"PYTHONPATH": str(ROOT), **(env or {})},
        "cwd": str(ROOT),
        # its process imports much, which takes a busy machine a while
        "discoveryTimeout": MAX_DISCOVERY_SECONDS,
        **fields.pop("options", {}),
    }
    return {"name": "tests", "kind": "mcp", "options": options, **fields}


def on_http(url: str, **fields: Any) -> JsonObject:
    """The declaration of a server at a URL."""
    connection = {"kind": "key", "endpoint": url, **fields.pop("connection", {})}
    return {"name": "tests", "kind": "mcp", "connection": connection, **fields}


class Tools:
    """What a kind offers for one declaration, called directly."""

    def __init__(self, declared: JsonObject, kind: McpKind | None = None) -> None:
        self.agent = Agent.model_validate(
            {"name": "tested", "model": {"id": "m"}, "tools": [declared]}
        )
        self.kind = kind or McpKind()
        self.offered: Sequence[Offering] = []

    @property
    def names(self) -> list[str]:
        return [offering.name for offering in self.offered]

    async def ask(self) -> Tools:
        [tool] = self.agent.tools or []
        self.offered = await self.kind.offer(tool, Asking(self.agent, {}))
        return self

    async def call(
        self, name: str, context: ToolContext | None = None, **arguments: Any
    ) -> ToolResult:
        [tool] = self.agent.tools or []
        [details] = [offering.details for offering in self.offered if offering.name == name]
        call = KindCall(tool, name, details, arguments, self.agent, {}, context or ToolContext())
        return await self.kind.execute(call)


def is_alive(pid: int) -> bool:
    """Whether a process of that id exists and is no zombie."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
