"""Forks and exports of runs that are made of many links."""

from __future__ import annotations

from typing import Any

from perdure.messages import Message
from perdure.testing import ScriptedReply, asks, call, says

from ..client.test_export import conversation, lines_of
from ..support.agents import Scripted, scripted_agent
from ..support.comparison import links
from ..support.stage import Stage

ROUNDS = 11


async def shout(text: str = "") -> str:
    return text.upper()


def script(request: Any) -> ScriptedReply:
    """Trimming hides assistant turns from the script, so it counts the rounds by the last tool
    result.
    """
    messages: list[Message] = request.messages
    if messages[-1].text == "stop":
        return says("stopped")
    number = int(messages[-1].text.rpartition(" ")[2]) + 1 if messages[-1].role == "tool" else 1
    return (
        asks(call("shout", f"call_{number}", text=f"{'x' * 300} {number}"))
        if number <= ROUNDS
        else says("done")
    )


async def test_across_links(stage: Stage, scripted: Scripted) -> None:
    model = scripted(script)
    async with stage.worker([shout]):
        run = await stage.start(
            scripted_agent(model, ["shout"]), max_iterations=30, context_budget=2000
        )
        result = await run.result()
        sent = [[message.text for message in request.messages] for request in model.requests]
        chain = await links(stage.client, run.id)
        assert len(chain) > 2
        begins = [link.input.carried.loop.iteration + 1 for link in chain if link.input.carried]
        for at in (2, *begins[:2], begins[1] + 1):
            fork = await run.fork(at, steer="stop", options={"context_budget": None})
            stage.runs.append(fork)
            await fork.result()
            begun = [message.text for message in model.requests[-1].messages]
            assert begun[-1] == "stop"
            # What the run trimmed before iteration `at` is trimmed; what it trimmed in it, is not
            # yet.
            before = begun[:-1]
            assert before[-1] == f"{'X' * 300} {at - 1}"
            assert sent[at - 2] == before[: len(sent[at - 2])]
    lines = await lines_of(run)
    assert conversation(lines) == result.messages
    without = await lines_of(run, events=False)
    assert without == [line for line in lines if line["kind"] != "event"]
    assert [line["iteration"] for line in lines if line["kind"] == "model_call"] == list(
        range(1, ROUNDS + 2)
    )
    called = [line for line in lines if line["kind"] == "tool_call"]
    assert [(line["id"], line["result"] is not None) for line in called] == [
        (f"call_{number}", True) for number in range(1, ROUNDS + 1)
    ]
    events = [line["seq"] for line in lines if line["kind"] == "event"]
    assert events == list(range(1, len(events) + 1))
