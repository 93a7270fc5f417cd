"""A stream is resumed anywhere, in the middle of a text too, and neither doubles nor loses a
character.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest

from perdure.client import RunEvent, RunHandle, get_run
from perdure.client.reading.events import Cursor, Speech
from perdure.events import TERMINAL_EVENTS
from perdure.json_types import JsonObject
from perdure.protocol.activities import StreamedText
from perdure.testing import ScriptedReply, asks, call, says
from tests.support.agents import Scripted, scripted_agent
from tests.support.stage import Stage

TEXT = " ".join(f"word{number}" for number in range(60))


def echo(text: str = "") -> str:
    return text


def shown(events: list[RunEvent], type: str = "token") -> str:
    """What stands on a reader's screen in the end."""
    text = ""
    for event in events:
        text = (
            ""
            if event.type == "text_reset"
            else text + event.data["token"]
            if event.type == type
            else text
        )
    return text


async def interrupted(stage: Stage, id: str, seed: int) -> list[RunEvent]:
    """What a client gets that loses its connection after every few events, and knows nothing but a
    position.
    """
    chance, events = random.Random(seed), list[RunEvent]()
    while not (events and events[-1].type in TERMINAL_EVENTS):
        left = chance.randint(1, 4)
        async for event in get_run(stage.client, id).stream(events[-1].position if events else 0):
            events.append(event)
            left -= 1
            if not left:
                break
    return events


async def test_five_clients_with_bad_connections_get_every_character_once(
    stage: Stage, scripted: Scripted
) -> None:
    await five_clients(stage, scripted, 0)


async def five_clients(stage: Stage, scripted: Scripted, seed: int) -> None:
    model = scripted([asks(call("echo", text="x")), says(TEXT, chunk_delay=0.03)])
    async with stage.worker({"echo": echo}):
        run = await stage.start(scripted_agent(model, ["echo"]), stream=True)
        clients = await asyncio.gather(
            *(interrupted(stage, run.id, seed + client) for client in range(5))
        )
    recorded = [event.seq for event in await run.events() if event.type != "token"]
    for events in clients:
        assert "".join(event.data["token"] for event in events if event.type == "token") == TEXT
        assert [
            event.seq for event in events if event.type not in ("token", "text_reset")
        ] == recorded
        assert len({event.position for event in events}) == len(events)
    assert any(len([event for event in events if event.type == "token"]) > 2 for events in clients)


@pytest.mark.parametrize(
    ("type", "data"),
    [
        (
            "model_fallback",
            {"model": "openai/first", "next": "openai/second", "reason": "server_error"},
        ),
        (
            "status",
            {"message": "LLM call failed, retrying (attempt 2/3)...", "reason": "overloaded"},
        ),
    ],
)
def test_what_a_failed_call_has_said_leaves_the_screen(type: Any, data: JsonObject) -> None:
    cursor = Cursor(4)
    events = [
        *cursor.live_news(Speech("5-1", StreamedText(iteration=1, attempt=1, text="half of")))
    ]
    cursor = Cursor(cursor.position)  # a reader that comes back
    for seq, (kind, details) in enumerate([(type, data), ("llm_complete", {"usage": {}})], 5):
        events += cursor.recorded_news(
            RunEvent(seq=seq, type=kind, iteration=1, data=details, position=str(seq))
        )
    assert [event.type for event in events] == ["token", "text_reset", type, "llm_complete"]
    assert len({event.position for event in events}) == len(events)
    assert shown(events) == ""


async def test_a_retry_in_the_middle_of_a_text_begins_it_anew(
    stage: Stage, scripted: Scripted
) -> None:
    cut = ScriptedReply(text=TEXT, chunk_delay=0.1, drop_after=30)
    model = scripted([[cut, says("This time whole: " + TEXT, chunk_delay=0.01)]])
    async with stage.worker():
        run = await stage.start(scripted_agent(model), stream=True)
        clients = await asyncio.gather(
            *(interrupted(stage, run.id, seed) for seed in range(3)),
            all_events(get_run(stage.client, run.id)),
        )
    for events in clients:
        assert shown(events) == "This time whole: " + TEXT
    assert [event.type for event in clients[-1]].count("text_reset") == 1


async def all_events(run: RunHandle) -> list[RunEvent]:
    return [event async for event in run.stream()]


async def test_a_closed_run_is_read_from_the_middle_of_a_text(
    stage: Stage, scripted: Scripted
) -> None:
    async with stage.worker():
        run = await stage.start(
            scripted_agent(scripted([says(TEXT, chunk_delay=0.03)])), stream=True
        )
        live = await all_events(run)
    piece = next(event for event in live if event.type == "token")
    assert len(piece.data["token"]) < len(TEXT)
    later = get_run(stage.client, run.id)
    for events in (
        await later.events(piece.position),
        [event async for event in later.stream(piece.position)],
    ):
        assert piece.data["token"] + shown(events) == TEXT
        assert [event.seq for event in events][-1] == live[-1].seq
    assert await later.events(str(live[-2].seq)) == await later.events(live[-2].seq) == live[-1:]
    for wrong in ("now", "3@", "-1", "1@1.1-1.0"):
        with pytest.raises(
            ValueError, match=r"not a position in a run, expected the `position` or `seq`"
        ):
            await later.events(wrong)


def speech(text: str, thinking: str = "", *, call: str = "7-1") -> Speech:
    return Speech(call, StreamedText(iteration=1, attempt=1, text=text, thinking=thinking))


def test_thinking_has_its_own_place() -> None:
    first = list(Cursor("3").live_news(speech("", "hm, ")))
    more = list(Cursor(first[-1].position).live_news(speech("So", "hm, well")))
    assert [(event.type, event.data["token"]) for event in first + more] == [
        ("thinking", "hm, "),
        ("thinking", "well"),
        ("token", "So"),
    ]
    assert list(Cursor(more[0].position).live_news(speech("So", "hm, well"))) == more[1:]
    assert list(Cursor(more[1].position).live_news(speech("So", "hm, well"))) == []
    again = list(Cursor(more[1].position).live_news(speech("No", call="8-1")))
    assert [event.type for event in again] == ["text_reset", "token"]
    assert list(Cursor(again[0].position).live_news(speech("No", call="8-1"))) == again[1:]


RESET = ("text_reset", None)


@pytest.mark.parametrize(
    ("thinking", "text", "thought", "said", "expected"),
    [
        ("", "Yes, b", "", "No", [RESET, ("token", "No")]),
        ("hm, ", "", "hm, well", "So", [("thinking", "well"), ("token", "So")]),
        ("hm, ", "Yes, b", "Well", "No", [RESET, ("thinking", "Well"), ("token", "No")]),
        (
            "hm, ",
            "Yes, b",
            "hm, well",
            "No",
            [("thinking", "well"), RESET, ("thinking", "hm, well"), ("token", "No")],
        ),
    ],
    ids=["text", "rest", "thinking", "text after thinking"],
)
def test_the_record_goes_on_from_what_was_shown_or_replaces_it(
    thinking: str, text: str, thought: str, said: str, expected: list[tuple[str, str | None]]
) -> None:
    *_, piece = Cursor("3").live_news(speech(text, thinking))
    cursor, events = Cursor(piece.position), list[RunEvent]()
    for seq, (type, whole) in enumerate([("thinking", thought), ("token", said)], 4):
        if whole:
            recorded = RunEvent(
                seq=seq, type=type, iteration=1, data={"token": whole}, position=str(seq)
            )
            events += cursor.recorded_news(recorded)
    assert [(event.type, event.data.get("token")) for event in events] == expected


async def test_a_closed_run_is_not_replayed_at_each_call(stage: Stage, scripted: Scripted) -> None:
    async with stage.worker({"echo": echo}):
        run = await stage.start(
            scripted_agent(scripted([asks(call("echo", text="x")), says("done")]), ["echo"])
        )
        await run.result()
    begun = time.monotonic()
    for _ in range(50):
        assert (await run.status()).last_seq == len(await run.events())
    assert (
        time.monotonic() - begun < 2
    )  # a second on an idle machine; 12 when each call replayed the run
    status = await get_run(stage.client, run.id).status()
    assert (status.status, status.iteration, status.model_calls, status.last_seq) == (
        "done",
        2,
        2,
        9,
    )


async def test_the_status_of_a_failed_run_is_in_its_failure(
    stage: Stage, scripted: Scripted
) -> None:
    async with stage.worker({"echo": echo}):
        model = scripted([asks(call("echo")), asks(call("echo", text="x"))])
        run = await stage.start(scripted_agent(model, ["echo"]), max_iterations=2)
        with pytest.raises(RuntimeError):
            await run.result()
    status, events = await run.status(), await run.events()
    assert (status.status, status.iteration, status.model_calls) == ("failed", 3, 2)
    assert status.last_seq == events[-1].seq
    assert status.usage.total_tokens == sum(
        event.data["usage"]["total_tokens"] for event in events if event.type == "llm_complete"
    )
