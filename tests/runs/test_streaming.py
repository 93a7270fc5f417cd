"""Text that is watched while the model writes it (`RunOptions.stream`)."""

from __future__ import annotations

import time

from perdure.client import RunEvent, get_run
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage

TEXT = " ".join(f"word{number}" for number in range(40))


def echo(text: str = "") -> str:
    return text


def text_of(events: list[RunEvent], type: str = "token") -> str:
    return "".join(event.data["token"] for event in events if event.type == type)


async def test_tokens_come_while_the_model_writes(stage: Stage, scripted: Scripted) -> None:
    model = scripted([asks(call("echo", text="x")), says(TEXT, chunk_delay=0.06)])
    live: list[tuple[float, RunEvent]] = []
    async with stage.worker({"echo": echo}):
        run = await stage.start(scripted_agent(model, ["echo"]), stream=True)
        async for event in run.stream():
            live.append((time.monotonic(), event))
        result = await run.result()
    events = [event for _, event in live]
    assert result.output == text_of(events) == TEXT
    pieces = [at for at, event in live if event.type == "token"]
    assert len(pieces) >= 2
    assert model.requests[-1].finished_at is not None
    assert pieces[0] < model.requests[-1].finished_at
    recorded = await get_run(stage.client, run.id).events()
    assert [event.seq for event in events if event.type != "token"] == [
        event.seq for event in recorded if event.type != "token"
    ]
    assert [event.data["token"] for event in recorded if event.type == "token"] == [TEXT]


async def test_thinking_is_complete_when_an_answer_or_a_tool_call_follows_at_once(
    stage: Stage, scripted: Scripted
) -> None:
    asked, said = ", ".join(["where"] * 20), ", ".join(["there"] * 20)
    script = [asks(call("echo", text="x"), thinking=asked), says("Yes.", thinking=said)]
    async with stage.worker({"echo": echo}):
        agent = scripted_agent(scripted(script * 2), ["echo"], wire="anthropic")
        run = await stage.start(agent, stream=True)
        events = [event async for event in run.stream()]
        unwatched = await stage.start(agent)
        await unwatched.result()
    for seen in (events, await get_run(stage.client, run.id).events()):
        thoughts = [
            text_of([event for event in seen if event.iteration == each], "thinking")
            for each in (1, 2)
        ]
        assert thoughts == [asked, said]
    assert not [event for event in await unwatched.events() if event.type == "thinking"]


async def test_a_text_that_outgrows_what_is_shown_live_comes_whole_in_the_end(
    stage: Stage, scripted: Scripted
) -> None:
    long = " ".join(letter * 100_000 for letter in "abcdef")
    async with stage.worker():
        run = await stage.start(
            scripted_agent(scripted([says(long, chunk_delay=0.3)])), stream=True
        )
        events = [event async for event in run.stream()]
    assert text_of(events) == long
    assert len([event for event in events if event.type == "token"]) > 1
