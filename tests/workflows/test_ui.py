"""The summaries of a run's activities and timers in Temporal's UI."""

from __future__ import annotations

import pytest
from temporalio.api.enums.v1 import EventType

from perdure import RunCancelled
from perdure.client import RunHandle
from perdure.protocol.outcome import HeldUp
from perdure.testing import ScriptedReply, asks

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage
from ..support.waiting import wait_for


async def summaries(stage: Stage, run: RunHandle, type: EventType.ValueType) -> list[str]:
    convert = stage.client.data_converter.payload_converter.from_payload
    history = await stage.client.get_workflow_handle(run.id).fetch_history()
    return [
        convert(event.user_metadata.summary, str)
        for event in history.events
        if event.event_type == type
    ]


async def test_a_run_that_is_held_up_says_why_and_until_when(
    stage: Stage, scripted: Scripted
) -> None:
    model = scripted([asks("look", text="sky"), ScriptedReply(status=503)])
    async with stage.worker({"look": lambda text="": "seen"}):
        run = await stage.start(scripted_agent(model, ["look"]), retry_base_seconds=60.0)

        async def held_up() -> HeldUp | None:
            return (await run.status()).held_up

        why = await wait_for(held_up)
        assert (why.kind, "503" in why.why) == ("overloaded", True)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()
        assert (await run.status()).held_up is None
    (timer,) = await summaries(stage, run, EventType.EVENT_TYPE_TIMER_STARTED)
    assert timer.startswith("iteration 2 · model retry in ")
    assert timer.endswith(" s, after overloaded")
    calls = await summaries(stage, run, EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
    assert calls[:2] == ["iteration 1 · scripted", "look(text='sky')"]
    assert calls[2].startswith("iteration 2 · scripted · ")
    assert calls[2].endswith(" tokens so far")
