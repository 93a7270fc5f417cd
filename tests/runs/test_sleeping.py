"""A run that no worker took up for a long time: its model is told, a person is asked, it goes on,
or it fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from perdure import RunError, RunOptions
from perdure.client import RunHandle
from perdure.prompty.load import load
from perdure.testing import ScriptedModel, ScriptedReply, asks, call, says
from perdure.testing.script import Script
from perdure.tools import tool

from ..support.agents import scripted_agent
from ..support.families import calls, family_script, write_agent
from ..support.stage import Stage
from ..support.waiting import wait_for

Scripted = Callable[[Script], ScriptedModel]
SLEEP, LIMIT, RETRY = 4.6, 4.0, 2.0
AT_ONCE = {"graceful_shutdown_timeout": timedelta(0)}


class Diary:
    """What tools have done."""

    def __init__(self) -> None:
        self.executed: list[str] = []
        self.begun = 0

    def look(self, text: str = "") -> str:
        self.executed.append(text)
        return "seen"

    async def hang(self, text: str = "") -> str:
        self.begun += 1
        await asyncio.sleep(120)
        return ""


async def sleeps(run: RunHandle) -> list[str]:
    """Return what the run did after each sleep."""
    noted = [event.data for event in await run.events() if event.type == "slept"]
    assert all(LIMIT < data["seconds"] < 30 for data in noted)
    assert (await run.status()).slept_seconds == sum(data["seconds"] for data in noted)
    return [data["then"] for data in noted]


def told(model: ScriptedModel) -> list[int]:
    """Return how many messages about a sleep each model call was sent."""
    return [
        sum("slept for" in message.text for message in request.messages)
        for request in model.requests
    ]


async def test_runs_that_begin_late(stage: Stage, scripted: Scripted) -> None:
    models = {then: scripted([asks("look"), says("done")]) for then in ("tell", "go_on", "fail")}
    runs = {
        then: await stage.start(
            scripted_agent(model, ["look"]), stale_after=LIMIT, on_stale=then, on_failure="hold"
        )
        for then, model in models.items()
    }
    other = await stage.start(scripted_agent(scripted([says("done")])))
    await asyncio.sleep(SLEEP)
    async with stage.worker({"look": Diary().look}):
        for run in (runs["tell"], runs["go_on"], other):
            assert (await run.result()).output == "done"
        with pytest.raises(RunError, match=r"No worker took the run up for \d\.\d s") as failed:
            await runs["fail"].result()
    assert (failed.value.kind, await sleeps(other)) == ("stale", [])
    assert {then: told(model) for then, model in models.items()} == {
        "tell": [1, 1],
        "go_on": [0, 0],
        "fail": [],
    }
    assert {then: await sleeps(run) for then, run in runs.items()} == {
        then: [then] for then in runs
    }


async def test_runs_whose_worker_ends_and_another_comes_late(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    diary, paid = Diary(), Diary()

    @tool(needs_approval=True)
    def pay(text: str = "") -> str:
        return paid.look(text)

    held_model = scripted([asks(call("look", "a"), call("look", "b")), says("done")])
    slow_model = scripted([[ScriptedReply(text="late", delay=100.0), says("done")]])
    down_model = scripted([[ScriptedReply(status=503), says("done")]])
    pay_model = scripted([asks("pay"), says("done")])
    family = scripted(
        family_script(
            {"chief": [asks("clerk"), says("done")], "clerk": [asks("look"), says("known")]}
        )
    )
    chief = write_agent(tmp_path, "chief.prompty", family, tools=[calls("clerk.prompty")])
    write_agent(
        tmp_path,
        "clerk.prompty",
        family,
        tools=[{"name": "look", "kind": "function", "parameters": []}],
    )
    stale: dict[str, Any] = {"stale_after": LIMIT, "tool_timeout": 100.0}
    async with stage.worker({"look": diary.hang, "pay": pay}, **AT_ONCE):
        asking = await stage.start(
            scripted_agent(held_model, ["look"]), **stale, on_stale="hold", parallel_tool_calls=True
        )
        calling = await stage.start(scripted_agent(slow_model), **stale)
        waiting = await stage.start(scripted_agent(pay_model, ["pay"]), **stale, on_stale="fail")
        caller = await stage.start(load(chief), **stale)

        async def is_all_under_way() -> bool:
            begun = diary.begun == 3 and slow_model.requests
            return bool(begun and (await waiting.status()).pending_approvals)

        await wait_for(is_all_under_way)
        trying = await stage.start(scripted_agent(down_model), **stale, retry_base_seconds=RETRY)

        async def is_held_up() -> bool:
            return (await trying.status()).held_up is not None

        await wait_for(is_held_up)  # the worker ends while it is
    await asyncio.sleep(1.5 * RETRY + SLEEP)  # jitter adds up to a half
    async with stage.worker({"look": diary.look, "pay": pay}):

        async def is_held() -> bool:
            held = (await asking.status()).held
            return [(each.reason, each.kind) for each in held] == [("stale", "stale")]

        await wait_for(is_held)
        for run in (calling, trying, caller):
            assert (await run.result()).output == "done"
        assert len(diary.executed) == 1, "that of the called run"
        await asking.go_on(by="ann")
        await waiting.approve("call_pay")
        assert [(await run.result()).output for run in (asking, waiting)] == ["done", "done"]
    assert (len(diary.executed), len(paid.executed)) == (3, 1)
    assert (told(held_model), await sleeps(asking)) == ([0, 0], ["hold"])
    assert (told(slow_model), await sleeps(calling)) == ([0, 1], ["tell"])
    assert (told(down_model), await sleeps(trying)) == ([0, 1], ["tell"])
    assert (told(pay_model), await sleeps(waiting)) == ([0, 0], [])
    assert (told(family), await sleeps(caller)) == ([0, 0, 1, 1], ["tell"])


def test_what_is_no_time_is_refused() -> None:
    assert RunOptions().model_dump().keys() & {"stale_after", "on_stale"} == set()
    with pytest.raises(ValidationError, match="-1 is not a duration"):
        RunOptions(stale_after=-1)
