"""Text that is read while a run goes on from link to link."""

from __future__ import annotations

import asyncio

from perdure.client import get_run
from perdure.testing import ScriptedReply, asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage

TEXT = " ".join(f"word{number}" for number in range(30))


def echo(text: str = "") -> str:
    return text


async def test_readers_hear_every_event_and_the_whole_text_over_several_links(
    stage: Stage, scripted: Scripted
) -> None:
    rounds = 8

    def reply(request: object) -> ScriptedReply:
        step = request.step  # type: ignore[attr-defined]
        return (
            asks(call("echo", f"c{step}", text="x"))
            if step < rounds
            else says(TEXT, chunk_delay=0.1)
        )

    model = scripted(reply)

    async def read(after: int) -> tuple[list[int], str, int]:
        """What a reader gets that comes with so many model calls made: `seq` of the events, text,
        pieces.
        """
        await asyncio.to_thread(model.wait_until, lambda: len(model.requests) >= after)
        events = [event async for event in get_run(stage.client, run.id).stream()]
        pieces = [event.data["token"] for event in events if event.type == "token"]
        assert "text_reset" not in [event.type for event in events]
        return (
            [event.seq for event in events if event.type != "token"],
            "".join(pieces),
            len(pieces),
        )

    async with stage.worker([echo]):
        options = {"max_iterations": 20, "stream": True, "stream_seconds": 0.3}
        run = await stage.start(scripted_agent(model, ["echo"]), **options)
        seen = await asyncio.gather(*map(read, (0, 5, rounds + 1)))
    recorded = [
        event.seq for event in await get_run(stage.client, run.id).events() if event.type != "token"
    ]
    assert len(recorded) > rounds
    for seqs, text, pieces in seen:
        assert (seqs, text) == (recorded, TEXT)
        assert pieces > 1
