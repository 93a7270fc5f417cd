"""Where a run stands, in the current details that Temporal keeps of it, and in the summaries of its
history.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.sdk.v1 import WorkflowMetadata

from perdure import ExecuteError, RunCancelled
from perdure.client import RunHandle
from perdure.testing import ScriptedModel, ScriptedReply, asks
from perdure.testing.script import Script

from ..support.agents import scripted_agent
from ..support.stage import Stage
from ..support.waiting import wait_for

Scripted = Callable[[Script], ScriptedModel]


async def details(stage: Stage, run: RunHandle) -> str:
    handle = stage.client.get_workflow_handle(run.id)
    metadata = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    return metadata.current_details


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

        async def held_up() -> str:
            shown = await details(stage, run)
            return shown if "is held up" in shown else ""

        shown = await wait_for(held_up)
        why = (await run.status()).held_up
        assert why is not None
        assert (why.kind, "503" in why.why) == ("overloaded", True)
        assert "iteration 2 of at most 10" in shown
        assert "model retry, after `overloaded`" in shown
        assert "✓ `look(text='sky')`" in shown
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()
        shown = await details(stage, run)
        assert "**cancelled** at 20" in shown
        assert "is held up" not in shown
        assert (await run.status()).held_up is None
    (timer,) = await summaries(stage, run, EventType.EVENT_TYPE_TIMER_STARTED)
    assert timer.startswith("iteration 2 · model retry in ")
    assert timer.endswith(" s, after overloaded")
    calls = await summaries(stage, run, EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
    assert calls[:2] == ["iteration 1 · scripted", "look(text='sky')"]
    assert calls[2].startswith("iteration 2 · scripted · ")
    assert calls[2].endswith(" tokens so far")


async def test_a_failed_run_says_why(stage: Stage, scripted: Scripted) -> None:
    async with stage.worker():
        run = await stage.start(
            scripted_agent(scripted([[ScriptedReply(status=503)]])), max_llm_retries=1
        )
        with pytest.raises(ExecuteError):
            await run.result()
        assert "**failed** at 20" in await details(stage, run)
