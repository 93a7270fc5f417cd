"""The number of a turn is in everything that traces it (§14)."""

from __future__ import annotations

import re

from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage


async def test_the_turn_is_in_summaries_details_and_events(
    stage: Stage, scripted: Scripted
) -> None:
    def look(text: str = "") -> str:
        return "seen"

    model = scripted([asks(call("look")), says("done")])
    async with stage.worker({"look": look}):
        run = await stage.start(scripted_agent(model, ["look"]), turn=3)
        await run.result()
    started = await stage.client.get_workflow_handle(run.id).describe()
    assert await started.static_summary() == "tested, turn 3: What is it?"
    assert "- turn 3 of a conversation" in str(await started.static_details())
    assert [event.data for event in await run.events() if event.type == "llm_start"] == [
        {"turn": 3}
    ] * 2
    first, tool, second = await summaries(stage, run.id)
    assert (first, tool) == ("turn 3, iteration 1 · scripted", "look()")
    assert re.fullmatch(r"turn 3, iteration 2 · scripted · \d+ tokens so far", second)


async def summaries(stage: Stage, run_id: str) -> list[str]:
    history = await stage.client.get_workflow_handle(run_id).fetch_history()
    convert = stage.client.data_converter.payload_converter.from_payload
    scheduled = [
        event
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    return [convert(event.user_metadata.summary, str) for event in scheduled]
