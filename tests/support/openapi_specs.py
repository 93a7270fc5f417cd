"""Short specifications, and what they offer."""

from __future__ import annotations

from typing import Any

from perdure.agents import Agent
from perdure.declared_tools import Connection, OpenApiTool
from perdure.json_types import JsonObject, JsonView
from perdure.messages import ToolResult
from perdure.tools.context import ToolContext
from perdure.tools.http import HttpRequest
from perdure.tools.kind import Asking, KindCall, Offering
from perdure.tools.openapi.document import Document
from perdure.tools.openapi.kind import OpenApiKind
from perdure.tools.openapi.operation import Operation
from perdure.tools.openapi.operations import offerings_of
from perdure.tools.openapi.request import request_of
from perdure.tools.openapi.security import credentials_for, key_of
from perdure.tools.openapi.sources import as_text

BASE = "https://api.example.com/v1"


def spec(paths: JsonView, *, version: str = "3.1.0", **more: Any) -> JsonObject:
    """A specification of these paths, on the server `BASE` unless `more` says otherwise."""
    known = {
        "openapi": version,
        "info": {"title": "test", "version": "1"},
        "servers": [{"url": BASE}],
    }
    return {**known, "paths": paths, **more}


def one(path: str, method: str = "get", version: str = "3.1.0", **operation: Any) -> JsonObject:
    """A specification of one operation, called `call`."""
    more = {
        key: operation.pop(key) for key in ("components", "servers", "security") if key in operation
    }
    return spec({path: {method: {"operationId": "call", **operation}}}, version=version, **more)


def offer(document: JsonView, source: str | None = None, **options: Any) -> list[Offering]:
    """What a tool with these options offers."""
    return offerings_of(Document(document), options, source)


def request(
    document: JsonView,
    arguments: JsonView,
    *,
    key: str = "",
    connection: Connection | None = None,
) -> HttpRequest:
    """The request of a call of the only operation."""
    operation = Operation.model_validate(offer(document)[0].details)
    credentials = credentials_for(operation, key_of(connection))
    return request_of(operation, BASE, arguments, credentials, key)


def tool_of(
    document: JsonView, connection: Connection | None = None, **options: Any
) -> OpenApiTool:
    """A tool whose specification was recorded."""
    return OpenApiTool(
        name="api", connection=connection, recorded=as_text(offer(document, **options))
    )


async def offered(
    kind: OpenApiKind, tool: OpenApiTool, prompt_root: Any = None
) -> dict[str, Offering]:
    """What the kind says that the tool offers, by name."""
    found = await kind.offer(tool, Asking(Agent(name="a"), {}, prompt_root))
    return {each.name: each for each in found}


async def executed(
    kind: OpenApiKind, tool: OpenApiTool, name: str, arguments: JsonObject, key: str = "key-1"
) -> ToolResult:
    """The result of one call."""
    details = (await offered(kind, tool))[name].details
    context = ToolContext(run_id="run", call_id="call", idempotency_key=key)
    return await kind.execute(
        KindCall(tool, name, details, arguments, Agent(name="a"), {}, context)
    )
