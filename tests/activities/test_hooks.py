"""The user's guardrails and compactors on a worker (§13.3, §13.4)."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from perdure import ToolContext
from perdure.activities.hooks import Hooks
from perdure.agents import Agent
from perdure.errors import ConfigurationError
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.options import RunOptions

ALLOWED = GuardrailResult(allowed=True)


class Judge:
    """A guardrail with state."""

    async def __call__(self, messages: list[Message]) -> GuardrailResult:
        return ALLOWED


async def judge_async(name: str, arguments: JsonObject) -> GuardrailResult:
    return ALLOWED


def hooks(guardrails: Guardrails, *, in_threads: bool = True) -> Hooks:
    return Hooks({"mine": guardrails}, {}, in_threads=in_threads)


def test_plain_and_async_callbacks_are_told_apart() -> None:
    given = Guardrails(input=Judge(), output=lambda message: ALLOWED, tool=judge_async)
    assert hooks(given).kinds(RunOptions(guardrails="mine")) == {
        "input": "async",
        "output": "plain",
        "tool": "async",
        "unseen": "plain",
    }
    assert hooks(given).kinds(RunOptions()) == {}


@pytest.mark.parametrize("option", ["guardrails", "compactor"])
def test_a_name_that_nobody_registered(option: str) -> None:
    given: JsonObject = {option: "yours"}
    with pytest.raises(
        ConfigurationError,
        match=rf"no {option} named 'yours' .*--{option} .*create_worker\({option}s?=",
    ):
        hooks(Guardrails()).kinds(RunOptions(**given))


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (ALLOWED, ALLOWED),
        (True, ALLOWED),
        (False, GuardrailResult(allowed=False)),
        ({"allowed": False, "reason": "no"}, GuardrailResult(allowed=False, reason="no")),
    ],
)
async def test_what_a_guardrail_may_give(verdict: Any, expected: GuardrailResult) -> None:
    assert (
        await hooks(Guardrails(input=lambda messages: verdict)).judge("mine", "input", [])
        == expected
    )


@pytest.mark.parametrize("in_threads", [True, False])
async def test_a_guardrail_that_fails_denies(in_threads: bool) -> None:
    def broken(messages: list[Message]) -> GuardrailResult:
        raise LookupError("nothing there")

    verdict = await hooks(Guardrails(input=broken), in_threads=in_threads).judge(
        "mine", "input", []
    )
    assert verdict == GuardrailResult(
        allowed=False, reason="the input guardrail failed: LookupError: nothing there"
    )


def leave(messages: list[Message]) -> GuardrailResult:
    raise SystemExit(3)


async def leave_async(messages: list[Message]) -> GuardrailResult:
    raise SystemExit(3)


@pytest.mark.parametrize("in_threads", [True, False])
@pytest.mark.parametrize("ending", [leave, leave_async])
async def test_a_guardrail_that_ends_the_process_only_denies(ending: Any, in_threads: bool) -> None:
    verdict = await hooks(Guardrails(input=ending), in_threads=in_threads).judge(
        "mine", "input", []
    )
    assert verdict == GuardrailResult(
        allowed=False, reason="the input guardrail failed: RuntimeError: SystemExit 3"
    )


async def test_a_plain_guardrail_does_not_stop_the_event_loop() -> None:
    def slow(messages: list[Message]) -> GuardrailResult:
        time.sleep(0.3)
        return GuardrailResult(allowed=threading.current_thread() is not threading.main_thread())

    judging = asyncio.create_task(hooks(Guardrails(input=slow)).judge("mine", "input", []))
    ticks = 0
    while not judging.done():
        await asyncio.sleep(0.01)
        ticks += 1
    assert judging.result().allowed
    assert ticks > 10


@pytest.mark.parametrize("kind", ["guardrail", "tools"])
async def test_a_value_that_is_made_as_it_is_read_does_not_stop_the_event_loop(kind: str) -> None:
    release, threads = threading.Event(), list[threading.Thread]()

    def read_late() -> Iterator[str]:
        threads.append(threading.current_thread())
        release.wait(10)
        yield "step"

    def rewrite(message: Message) -> GuardrailResult:
        return GuardrailResult(allowed=True, rewrite=read_late())

    given = Hooks(
        {"mine": Guardrails(output=rewrite)},
        {},
        {"mine": lambda tools: read_late()},
        in_threads=True,
    )
    agent = Agent.model_validate({"tools": [{"name": "step"}]})
    judging = asyncio.create_task(
        given.judge("mine", "output", Message.user("x"))
        if kind == "guardrail"
        else given.prepare_tools("mine", agent, ToolContext())
    )
    while not threads:
        await asyncio.sleep(0)
    release.set()
    assert (await judging).allowed
    assert threading.current_thread() not in threads


async def test_tools_without_an_end_are_read_so_far() -> None:
    given = Hooks({}, {}, {"mine": itertools.cycle}, in_threads=True)
    agent = Agent.model_validate({"tools": [{"name": "step"}]})
    verdict = await given.prepare_tools("mine", agent, ToolContext())
    assert verdict == GuardrailResult(allowed=True, rewrite={"step": None})
