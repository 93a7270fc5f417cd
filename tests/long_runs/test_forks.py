"""Forks and exports of runs that are made of many links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure.client import get_run
from perdure.errors import ExecuteError
from perdure.messages import Message
from perdure.protocol import activities
from perdure.testing import ScriptedModel, ScriptedReply, asks, call, says
from perdure.testing.script import Script

from ..client.test_export import conversation, lines_of
from ..support.agents import scripted_agent
from ..support.comparison import activity_types, fingerprints, links
from ..support.stage import Stage
from .test_large_conversations import read, rounds

Scripted = Callable[[Script], ScriptedModel]
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


@pytest.mark.trial
async def test_what_is_too_large_for_an_input_is_loaded(stage: Stage, scripted: Scripted) -> None:
    """More than two megabytes, in several links: the fork finds them in the run's histories,
    once.
    """
    model = scripted(rounds(20))
    async with stage.worker([read]):
        run = await stage.start(scripted_agent(model, ["read"]), max_iterations=30)
        result = await run.result()
        assert sum(len(message.text) for message in result.messages) > 2_200_000
        fork = await run.fork(21, steer="Go on.")
        stage.runs.append(fork)
        end = await fork.result()
        assert model.requests[-1].messages[-1].text == "Go on."
        assert fingerprints(model)[20] != fingerprints(model)[21]
        said = result.messages[:-1]
        assert end.messages[: len(said)] == said
        assert await get_run(stage.client, fork.id).messages() == end.messages
        [link, *_] = await links(stage.client, fork.id)
        assert activities.LOAD_PIECE in activity_types(link)
        events = await fork.events()
        assert events[-1].data["messages"] == end.messages
        assert conversation(await lines_of(fork)) == end.messages
        again = await fork.fork(1, steer="Anew.")
        stage.runs.append(again)
        assert [message.text for message in (await again.result()).messages[len(said) :]] == [
            "Go on.",
            "Anew.",
            "done",
        ]
        after = await run.fork(22, steer="And now?")
        stage.runs.append(after)
        with pytest.raises(ExecuteError, match="no reply for step"):
            await after.result()
        assert [message.text for message in (await after.messages())[-2:]] == ["done", "And now?"]
