"""No kind of tool sends less than the model said: what it does not have is refused by name, before
anything is sent.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from perdure import load
from perdure.agents import Agent
from perdure.declared_tools import OfferedFunction, Tool
from perdure.json_types import JsonObject
from perdure.testing import InProcessRun, asks, call, says
from perdure.tools import KindCall, Offering, ToolKind, register_tool_handler
from perdure.tools.kind import clear_tool_handlers
from perdure.tools.validation import schema_problems

from ..support.agents import tool_texts
from ..support.far_ends import far_ends
from ..support.mcp_scripted import Scripted as McpServer
from ..support.mcp_scripted import text
from ..support.openapi_specs import offer, one
from ..support.raw_server import ok

OLDER = {"older_than": {"type": "string"}}
CLOSED = {"type": "object", "properties": OLDER, "additionalProperties": False}
SILENT = {"type": "object", "properties": OLDER}
QUERY = {"name": "older_than", "in": "query", "schema": {"type": "string"}}
CLEANER = """---
name: cleaner
model: {id: m, provider: openai}
inputs:
  - {name: older_than, kind: string}
---
user:
Clean {{older_than}}.
"""


class Own(ToolKind):
    """A kind of one's own, whose schema does not say what else a call may have."""

    def __init__(self, sent: list[str]) -> None:
        self.sent = sent

    async def offer(self, tool: Tool, asking: Any) -> list[Offering]:
        return [Offering(name="own", parameters=SILENT)]

    async def execute(self, call: KindCall) -> str:
        self.sent.append("own")
        return "done"


class FarEnds:
    """One of each kind, which notes that it was called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent: list[str] = []

    def purge(self, older_than: str = "") -> str:
        """Purge."""
        self.sent.append("purge")
        return "done"

    def handler(self, tool: Tool, arguments: JsonObject, agent: Agent, inputs: Any) -> str:
        self.sent.append("plain")
        return "done"

    @asynccontextmanager
    async def tools(self) -> AsyncIterator[list[JsonObject]]:
        named = [
            {"name": "closed", "inputSchema": CLOSED},
            {"name": "silent", "inputSchema": SILENT},
        ]
        mcp = McpServer(lambda request, message: text(message, "done"), tools=named)

        async def answer(request: Request) -> Response:
            self.sent.append("remote")
            return Response("no", 500)

        (self.folder / "cleaner.prompty").write_text(CLEANER)
        declared = [{"name": "older_than", "kind": "string"}]
        async with far_ends(mcp, answer, "delete", ok(b"{}"), parameters=[QUERY]) as ends:
            yield [
                *ends.tools,
                {"name": "cleaner", "kind": "prompty", "path": "cleaner.prompty", "mode": "single"},
                {"name": "read_result", "kind": "builtin"},
                {"name": "own", "kind": "own"},
                {"name": "plain", "kind": "plain", "parameters": declared},
                {"name": "purge", "kind": "function", "parameters": declared},
            ]
            self.sent += [f"mcp {each}" for each in mcp.calls]
            self.sent += [f"peer {each}" for each in ends.peer.bodies]
            self.sent += [line for line in ends.api.lines() if line.startswith("DELETE")]


CALLS = {
    "closed": ("olderThan", "older_than"),
    "silent": ("olderThan", "older_than"),
    "call": ("olderThan", "older_than"),
    "remote": ("contextId", "context_id"),
    "peer": ("Tasks", "task"),
    "cleaner": ("olderThan", "older_than"),
    "read_result": ("callId", "call_id"),
    "own": ("olderThan", "older_than"),
    "plain": ("olderThan", "older_than"),
    "purge": ("olderThan", "older_than"),
}


def agent_of(tools: list[JsonObject]) -> Agent:
    return Agent.model_validate({"name": "a", "model": {"id": "m"}, "tools": tools})


@pytest.fixture
async def ends(tmp_path: Path) -> AsyncIterator[FarEnds]:
    ends = FarEnds(tmp_path)
    register_tool_handler("plain", ends.handler)
    yield ends
    clear_tool_handlers()


async def test_every_kind_refuses_what_it_does_not_have_by_name(ends: FarEnds) -> None:
    """The model is offered closed schemas, but for those of strangers that say nothing."""
    calls = [call(name, **{wrong: "2020"}) for name, (wrong, _) in CALLS.items()]
    offered: JsonObject = {}

    def model(agent: Agent, conversation: Any) -> Any:
        if offered:
            return says("done")
        tools = [tool for tool in agent.tools or [] if isinstance(tool, OfferedFunction)]
        offered.update({tool.name: tool.schema_ for tool in tools})
        return asks(*calls)

    async with ends.tools() as tools:
        (ends.folder / "agent.prompty").write_text(
            f"---\nname: a\nmodel: {{id: m, provider: openai}}\ntools: "
            f"{json.dumps(tools)}\n---\nuser:\nPurge.\n"
        )
        run = InProcessRun(
            load(ends.folder / "agent.prompty"),
            model=model,
            tools={"purge": ends.purge},
            tool_kinds={"own": Own(ends.sent)},
        )
        result = await run.run()
        told = dict(zip(CALLS, tool_texts(result.messages), strict=True))
    assert ends.sent == []
    for name, (wrong, right) in CALLS.items():
        assert f"unknown argument '{wrong}': did you mean '{right}'?" in told[name], (
            name,
            told[name],
        )
    open_ones = {
        name: schema
        for name, schema in offered.items()
        if schema.get("additionalProperties") is not False
    }
    assert open_ones == {"silent": SILENT}


BODY = {"type": "object", "properties": {"url": {"type": "string"}}}
FILTER = {"in": "query", "name": "dry_run", "schema": {"type": "boolean"}}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            {"body": {"url": "u", "dry_run": True}},
            "'body.dry_run' is not read there: give 'dry_run' next to 'body'",
        ),
        ({"url": "u"}, "unknown argument 'url': it is a part of 'body'"),
        ({"dryRun": True}, "unknown argument 'dryRun': did you mean 'dry_run'?"),
        ({"body": {"url": "u", "more": 1}, "dry_run": True}, None),
        ({"body": {"dry_run": 1}, "dry_run": True}, None),
    ],
)
@pytest.mark.parametrize(
    "form", [BODY, {"allOf": [{"$ref": "#/components/schemas/Body"}, {"type": "object"}]}]
)
async def test_a_part_of_a_request_in_anothers_place(
    given: Any, problem: str | None, form: Any
) -> None:
    content = {"application/json": {"schema": {**form, "minProperties": 1}}}
    document = one(
        "/x",
        "post",
        parameters=[FILTER],
        requestBody={"content": content},
        components={"schemas": {"Body": BODY}},
    )
    [offering] = offer(document)
    schema = {**offering.parameters, "additionalProperties": False}
    assert schema_problems(schema, given)[1] == ([] if problem is None else [problem])


@pytest.mark.parametrize(
    ("schema", "given", "is_refused"),
    [
        (SILENT, {"older": "2020"}, True),
        (SILENT, {"OLDER-THAN": "2020"}, True),
        (SILENT, {"older_than": "2020", "older": "x"}, False),
        (SILENT, {"verbose": True}, False),
        ({**SILENT, "additionalProperties": True}, {"olderThan": "2020"}, False),
        ({**SILENT, "additionalProperties": {"type": "string"}}, {"olderThan": "2020"}, False),
        ({**SILENT, "patternProperties": {"^older": {}}}, {"olderThan": "2020"}, False),
        (CLOSED, {"verbose": True}, True),
        ({"type": "object", "properties": {"at": CLOSED}}, {"at": {"olderThan": 1}}, True),
        ({"type": "object"}, {"anything": 1}, False),
    ],
)
def test_what_a_strangers_schema_refuses(schema: Any, given: Any, is_refused: bool) -> None:
    assert bool(schema_problems(schema, given)[1]) == is_refused


class Filter(BaseModel):
    older_than: str = ""


class Free(BaseModel):
    model_config = ConfigDict(extra="allow")
    older_than: str = ""


async def test_what_pydantic_would_drop_within_an_argument() -> None:
    called: list[Any] = []

    def purge(filter: Filter, also: list[Filter] | None = None) -> str:
        called.append(filter)
        return "done"

    def free(filter: Free) -> str:
        called.append(filter.model_extra)
        return "done"

    def kwargs(**more: Any) -> str:
        called.append(more)
        return "done"

    agent = agent_of([{"name": name, "kind": "function"} for name in ("purge", "free", "kwargs")])
    calls = [
        call("purge", filter={"olderThan": "2020"}),
        call("purge", filter={}, also=[{"older": "2020"}]),
        call("free", filter={"olderThan": "2020"}),
        call("kwargs", anything=1),
    ]
    run = InProcessRun(
        agent,
        [],
        model=[asks(*calls), says("done")],
        tools={"purge": purge, "free": free, "kwargs": kwargs},
    )
    told = tool_texts((await run.run()).messages)
    assert called == [{"olderThan": "2020"}, {"anything": 1}]
    assert "unknown argument 'filter.olderThan': did you mean 'filter.older_than'?" in told[0]
    assert "unknown argument 'also[0].older': did you mean 'also[0].older_than'?" in told[1]
