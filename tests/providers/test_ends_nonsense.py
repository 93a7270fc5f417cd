"""Whatever nonsense a server sends: it is asked again, the call is refused, or the run is held or
fails and says why.

Bytes over HTTP through the SDKs, and the loop. The table is `tests/support/nonsense.txt`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from perdure.activities.heartbeat import Heartbeat
from perdure.activities.model import ask_model
from perdure.agents import Agent
from perdure.client import RunHandle
from perdure.errors import ExecuteError, ModelError, RunCancelled, RunError
from perdure.event_data import HoldReason
from perdure.loop.failed_calls import AFTER
from perdure.messages import Message, ModelReply, ToolResult
from perdure.options import RunOptions
from perdure.providers import close_clients
from perdure.testing import InProcessRun
from perdure.tool_calls import ToolRequest

from ..support.loop_stage import ClockedEffects
from ..support.nonsense import APIS, FINE, KINDS, TOOL, NonsenseServer, table
from ..support.recorded_server import recorded_server
from ..support.stage import Stage
from ..support.waiting import wait_for
from ..support.wild_provider import asking

HANGS = {"sent: no end of the connection"}
SECONDS = 20.0
LONGEST = 60.0
"""The first call loads an SDK, which takes long on a busy machine."""


class Held(ClockedEffects):
    """A run that is held ends with the reason; tools do nothing."""

    held: HoldReason | None = None
    calls = 0

    def is_held_for(self, reason: HoldReason) -> bool:
        return True

    async def hold(self, error: RunError, reason: HoldReason) -> None:
        self.held = reason
        raise error

    async def run_tool(self, request: ToolRequest) -> ToolResult:
        self.calls += 1
        return ToolResult.of_text("done")


class HeldRun(InProcessRun):
    effects_type = Held
    effects: Held


@pytest.fixture(scope="module")
async def nonsense() -> AsyncIterator[NonsenseServer]:
    served = NonsenseServer()
    async with recorded_server(served):
        yield served
        await close_clients()


def agent_of(nonsense: NonsenseServer, api: str, kind: str) -> Agent:
    """One whose model answers with that nonsense first."""
    agent = asking(nonsense, api, [TOOL])
    assert agent.model is not None
    agent.model.id = f"{api} {kind}"
    nonsense.first[agent.model.id] = KINDS[kind](api)
    return agent


async def outcome(nonsense: NonsenseServer, api: str, kind: str, *, streams: bool) -> str:
    """What the first call comes to, after a look at what the run makes of it."""
    agent = agent_of(nonsense, api, kind)
    name = f"{api} {kind}"
    seconds = 0.3 if kind in HANGS else SECONDS
    options = RunOptions(
        stream=streams, llm_timeout=seconds, max_llm_retries=2, rate_limit_seconds=60
    )
    failures: list[ModelError] = []

    async def model(agent: Agent, messages: list[Message]) -> ModelReply:
        heart = Heartbeat()
        heart.speak(1, 1)
        try:
            return await ask_model(agent, messages, options, heart)
        except ModelError as error:
            failures.append(error)
            raise

    run = HeldRun(
        agent, [Message.user("How is it?")], model=model, tools={TOOL: str}, options=options
    )
    began = time.monotonic()
    try:
        result: Any = await run.run()
    except RunError as error:
        result = error
    took = time.monotonic() - began
    assert took < LONGEST, f"{name} took {took:.0f} s"
    return judged(name, run, failures, result, nonsense.asked[name])


def judged(name: str, run: HeldRun, failures: list[ModelError], result: Any, asked: int) -> str:
    """Return the word for what became of the first reply. The run must have followed from it."""
    refused = [message for message in run.conversation.messages if message.role == "tool"]
    if isinstance(result, RunError):
        assert isinstance(result, ExecuteError), name
        [failure] = failures
        row = AFTER[failure.kind]
        assert (result.reason, run.effects.held) == (failure.kind, row.held_for), name
        assert failure.message.strip(), name
        assert "Traceback" not in str(result), name
        return failure.kind
    assert result.output.strip(), name
    if failures:
        [failure] = failures
        assert AFTER[failure.kind].asked_again in ("attempts", "waits"), name
        assert (result.output, asked) == (FINE, 2), name
        return failure.kind
    if refused:
        assert result.output == FINE, name
        return "called" if run.effects.calls else "refused"
    assert asked == 1, name
    return "cut short" if result.cut_short else "answer"


async def check(nonsense: NonsenseServer, pairs: Iterable[tuple[str, str]]) -> None:
    expected = table()
    seen = {
        (kind, api): await outcome(nonsense, api, kind, streams="streamed" in kind)
        for kind, api in pairs
    }
    assert {
        pair: (word, expected[pair]) for pair, word in seen.items() if word != expected[pair]
    } == {}


def test_the_table_is_whole() -> None:
    assert len(KINDS) >= 200
    assert table().keys() == {(kind, api) for kind in KINDS for api in APIS}
    assert {*table().values()} <= {*AFTER, "answer", "cut short", "called", "refused"}


@pytest.mark.timeout(300)
async def test_each_kind_of_nonsense(nonsense: NonsenseServer) -> None:
    """Each on one API; the next one is tried on the next."""
    await check(nonsense, [(kind, APIS[number % 3]) for number, kind in enumerate(KINDS)])


WHOLE_RUNS = (
    *(
        "the list is null",
        "the text is empty",
        "the call is of an unknown type",
        "the name is null",
    ),
    *("a body: a page", "a body: deep", "in a 200: an error of Google's", "in a 200: an overflow"),
    *(
        "a status: 401",
        "a status: 307 elsewhere",
        "sent: gzip that is none",
        "sent: a refusal",
        "sent: no HTTP",
    ),
)


async def test_whole_runs(nonsense: NonsenseServer, stage: Stage) -> None:
    """On a real server: the run ends with an answer, or is held, or fails, and says why."""
    expected = table()
    async with stage.worker({TOOL: str}):
        runs = {}
        for number, kind in enumerate(WHOLE_RUNS):
            api = APIS[number % 3]
            runs[kind, api] = await stage.start(
                agent_of(nonsense, api, kind), max_llm_retries=2, on_failure="hold"
            )
        for pair, run in runs.items():
            assert await end_of(run) == followed(expected[pair]), pair


async def end_of(run: RunHandle) -> str:
    """What it is held for, what it has failed for, or its answer."""
    ended = asyncio.ensure_future(run.result())

    async def is_over() -> bool:
        return ended.done() or bool((await run.status()).held)

    await wait_for(is_over)
    if not ended.done():
        [why] = (await run.status()).held
        await run.cancel()
        with pytest.raises(RunCancelled):
            await ended
        return f"held: {why.reason}"
    failure = ended.exception()
    return (
        f"failed: {failure.reason}" if isinstance(failure, ExecuteError) else ended.result().output
    )


def followed(word: str) -> str:
    row = AFTER.get(word)
    if row is None or row.asked_again in ("attempts", "waits"):
        return FINE
    return f"held: {row.held_for}" if row.held_for else f"failed: {word}"
