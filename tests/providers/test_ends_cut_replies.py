"""Replies that are cut off at any byte: no call is executed that is not whole, and each that is,
is, once.

Bytes over HTTP through the SDKs, and the loop; what reaches a tool counts as executed, whatever the
tool would say.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable

import pytest

from perdure.activities.heartbeat import Heartbeat
from perdure.activities.model import ask_model
from perdure.agents import Agent
from perdure.messages import Message, ModelReply, ToolResult
from perdure.options import RunOptions
from perdure.protocol.outcome import RunResult
from perdure.providers import close_clients
from perdure.testing import InProcessRun
from perdure.tool_calls import ToolRequest

from ..support.cut_replies import TOOLS, CutReply, CutServer
from ..support.loop_stage import ClockedEffects
from ..support.recorded_server import recorded_server
from ..support.wild_provider import asking

DONE = "All is done."


class Watched(ClockedEffects):
    """Executes nothing, and notes what would be, and after which reply."""

    case: CutReply
    executed: list[tuple[int, ToolRequest]]

    async def run_tool(self, request: ToolRequest) -> ToolResult:
        self.executed.append((self.case.requests, request))
        return ToolResult.of_text(self.case.result_of(request.call_id))


class WatchedRun(InProcessRun):
    effects_type = Watched
    effects: Watched


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[CutServer]:
    cuts = CutServer()
    async with recorded_server(cuts):
        yield cuts
        await close_clients()


async def play(
    server: CutServer, number: int
) -> tuple[CutReply, list[tuple[int, ToolRequest]], RunResult]:
    case = server.cases[str(number)] = CutReply(number)
    agent = asking(server, case.api, TOOLS)
    assert agent.model is not None
    agent.model.id = str(number)
    options = RunOptions(stream=case.streams, llm_timeout=20, max_llm_retries=2)

    async def model(agent: Agent, messages: list[Message]) -> ModelReply:
        if not case.left(message.text for message in messages):
            return ModelReply(message=Message.assistant(DONE))
        heart = Heartbeat()
        heart.speak(1, 1)
        return await ask_model(agent, messages, options, heart)

    run = WatchedRun(
        agent, [Message.user("Go.")], model=model, tools=dict.fromkeys(TOOLS, str), options=options
    )
    run.effects.case, run.effects.executed = case, []
    result = await run.run()
    del server.cases[str(number)]
    return case, run.effects.executed, result


async def check(server: CutServer, numbers: Iterable[int]) -> Counter[str]:
    """Play the cases, and return what became of their calls at first."""
    seen: Counter[str] = Counter()
    for number in numbers:
        case, executed, result = await play(server, number)
        where = (
            f"case {number}: {case.api}, {'streamed' if case.streams else 'not streamed'}, "
            f"{case.way}"
        )
        at_once = {request.call_id for after, request in executed if after == 1}
        whole = {sent.id for sent in case.sent if sent.is_whole}
        marked = {sent.id for sent in case.sent if sent.is_marked}
        assert at_once <= whole, f"{where}: executed incomplete calls: {at_once - whole}"
        assert marked <= at_once, f"{where}: whole calls were not executed: {marked - at_once}"
        seen += Counter(calls=len(case.sent), whole=len(whole), executed=len(at_once))
        for _, request in executed:
            assert request.arguments == json.loads(case.arguments[request.call_id[:2]]), where
        if result.output != DONE:
            assert (case.way, at_once, result.cut_short) == ("gateway", set(), "length"), where
            seen["answers that say that they are cut short"] += 1
            continue
        done = Counter(request.call_id[:2] for _, request in executed)
        assert done == Counter(case.arguments.keys()), (
            f"{where}: a call was lost or repeated: {done}"
        )
    return seen


@pytest.mark.timeout(300)
async def test_replies_that_are_cut_off(server: CutServer) -> None:
    seen = await check(server, range(300))
    assert 0 < seen["executed"] <= seen["whole"] < seen["calls"]


@pytest.mark.trial
@pytest.mark.timeout(7200)
async def test_10_000_replies_that_are_cut_off(server: CutServer) -> None:
    began = time.monotonic()
    seen = await check(server, range(10_000))
    print(
        f"\n10,000 replies in {time.monotonic() - began:.0f} s, {time.process_time():.0f} s of "
        f"CPU: {dict(seen)}"
    )
