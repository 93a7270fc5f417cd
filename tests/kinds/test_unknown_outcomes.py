"""`retries` repeats nothing of which nobody knows the outcome, whatever the tool; effects are
counted far away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from temporalio import activity
from temporalio.worker import Worker

from perdure.json_types import JsonObject
from perdure.testing import asks, call, says
from perdure.tools import KindCall, Offering, OutcomeUnknown, ToolKind

from ..support.agents import Scripted, scripted_agent
from ..support.far_ends import far_ends
from ..support.mcp_scripted import Scripted as McpServer
from ..support.raw_server import ok
from ..support.stage import Stage

ONCE = {"retries": 1, "idempotent": False}


class Courier(ToolKind):
    """A kind of one's own, which says whether its call may have taken effect."""

    def __init__(self, error: type[Exception], sent: Counter[str]) -> None:
        self._error = error
        self._sent = sent

    async def offer(self, tool: Any, asking: Any) -> list[Offering]:
        return [Offering(name="courier", idempotent=False)]

    async def execute(self, call: KindCall) -> str:
        self._sent["courier"] += 1
        raise self._error("the courier has not come back")


class FarEnds:
    """One of each kind; all of them answer with this status."""

    def __init__(self, status: int, error: type[Exception]) -> None:
        self.status = status
        self.error = error
        self.sent: Counter[str] = Counter()
        """Tool → how often it was called."""

    @asynccontextmanager
    async def tools(self) -> AsyncIterator[list[JsonObject]]:
        mcp = McpServer(lambda request, message: Response("no", self.status))

        async def answer(request: Request) -> Response:
            self.sent["remote"] += b"SendMessage" in await request.body()
            return Response("no", self.status)

        refusal = ok(b"no", status=f"{self.status} No")
        async with far_ends(mcp, answer, "post", refusal) as (tools, peer, api):
            yield [
                *tools,
                {"name": "courier", "kind": "courier"},
                {"name": "pay", "kind": "function"},
            ]
            self.sent["hello"] = len(mcp.calls)
            self.sent["peer"] = len(peer.bodies)
            self.sent["call"] = sum(line.startswith("POST /items") for line in api.lines())

    def pay(self) -> str:
        """Pay."""
        self.sent["pay"] += 1
        raise self.error("the bank has not answered")


CALLS = [
    call("hello"),
    call("call"),
    call("remote", message="pay"),
    call("courier"),
    call("pay"),
]


@pytest.mark.parametrize(
    ("status", "error", "executions"), [(500, OutcomeUnknown, 1), (429, ConnectionRefusedError, 2)]
)
async def test_only_what_has_certainly_not_happened_is_repeated(
    stage: Stage, scripted: Scripted, status: int, error: type[Exception], executions: int
) -> None:
    ends = FarEnds(status, error)
    calls = [*CALLS, call("peer", task=f"status {status}")]
    model = scripted([asks(*calls), says("done")])
    kinds = {"courier": Courier(error, ends.sent)}
    async with ends.tools() as tools, stage.worker({"pay": ends.pay}, tool_kinds=kinds):
        agent = scripted_agent(model, [{**each, "perdure": ONCE} for each in tools])
        run = await stage.start(agent, parallel_tool_calls=True)
        result = await run.result()
    assert result.output == "done"
    assert ends.sent == dict.fromkeys(
        ("hello", "call", "remote", "courier", "pay", "peer"), executions
    )


async def test_an_idempotent_tool_is_repeated_whatever_has_become_of_it(
    stage: Stage, scripted: Scripted
) -> None:
    ends = FarEnds(500, OutcomeUnknown)
    model = scripted([asks(call("pay")), says("done")])
    declared = {"name": "pay", "kind": "function", "perdure": {"retries": 1}}
    async with stage.worker({"pay": ends.pay}):
        run = await stage.start(scripted_agent(model, [declared]))
        await run.result()
    assert ends.sent["pay"] == 2


@pytest.mark.parametrize(
    ("error", "executions"), [(OutcomeUnknown, 1), (ConnectionRefusedError, 2)]
)
async def test_an_activity_of_others_says_it_by_the_type_of_its_error(
    stage: Stage, scripted: Scripted, error: type[Exception], executions: int
) -> None:
    ends, queue = FarEnds(500, error), f"{stage.task_queue}-others"

    @activity.defn(name="pay_abroad")
    async def pay() -> str:
        return ends.pay()

    declared = {
        "name": "pay_abroad",
        "kind": "activity",
        "parameters": [],
        "options": {"activity": "pay_abroad", "taskQueue": queue},
        "perdure": ONCE,
    }
    model = scripted([asks(call("pay_abroad")), says("done")])
    async with stage.worker(), Worker(stage.client, task_queue=queue, activities=[pay]):
        run = await stage.start(scripted_agent(model, [declared]))
        await run.result()
    assert ends.sent["pay"] == executions
