"""A session of many turns, and turns of many iterations: nothing that was said is lost between
links.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from temporalio.testing import WorkflowEnvironment

from perdure import Guardrails
from perdure.errors import GuardrailError
from perdure.messages import Message
from perdure.session_conversation import WITHHELD
from perdure.testing import ScriptedReply, ScriptedRequest, asks, call

from ..support.agents import Scripted
from ..support.sessions import SessionStage, setup_of, shown, talk

ROUNDS = 8


def long_turns(request: ScriptedRequest) -> ScriptedReply:
    """Answers a question that begins with `work` after some rounds of a tool call."""
    said = [place for place, message in enumerate(request.messages) if message.role == "user"][-1]
    done = len([message for message in request.messages[said:] if message.role == "tool"])
    if request.messages[said].text.startswith("work") and done < ROUNDS:
        return asks(call("gate", f"call_{said}_{done}"))
    return talk(request)


@pytest.fixture
async def session(
    short_histories: WorkflowEnvironment, task_queue: str, scripted: Scripted
) -> AsyncIterator[SessionStage]:
    """A session whose links, and those of its turns, are short."""
    stage = SessionStage(short_histories.client, task_queue, scripted(long_turns))
    stage.gate.open.set()
    yield stage
    await stage.replay()


async def test_many_turns(session: SessionStage) -> None:
    size = 30_000
    async with session.worker():
        await session.start()
        first = await session.send(f"long {size}", id="first")
        for number in range(2, 7):
            await session.run(number - 1).result()
            await session.idle()
            taken = await session.send(f"long {size + number}")
            assert taken.turn == number
        await session.run(6).result()
        assert await session.send("again", id="first") == first
        await session.idle()
    links = await session.links()
    assert len(links) > 1
    told = [
        *(["s: You are helpful."]),
        *(text for number in range(1, 7) for text in _turn(number, size)),
    ]
    assert shown(links[-1].conversation.messages) == told
    assert [turn.number for link in links for turn in link.turns] == list(range(1, 7))
    loads = [
        event
        for event in links[-1].history
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert loads


def _turn(number: int, size: int) -> list[str]:
    length = size + (number if number > 1 else 0)
    return [f"u: long {length}", f"a: {'x' * min(length, 40)}"]


async def test_queued_messages_go_on_in_the_next_link(session: SessionStage) -> None:
    texts = [f"message {number}" for number in range(1, 11)]
    async with session.worker():
        await session.start()
        for text in texts:
            await session.send(text, while_busy="queue")
        await session.idle(timeout=60)
    links = await session.links()
    assert len(links) > 1
    said = [text for text in shown(links[-1].conversation.messages) if text.startswith("u: ")]
    assert said == [f"u: {text}" for text in texts]


async def test_a_turn_of_many_links(session: SessionStage) -> None:
    async with session.worker():
        await session.start(setup_of(session.agent, max_iterations=30))
        await session.said("one")
        assert await session.said("work hard") == "re: work hard"
        assert await session.said("three") == "re: three"
    rounds = [text for _ in range(ROUNDS) for text in ("a: ", "t: through")]
    complete = [
        *(
            "s: You are helpful.",
            "u: one",
            "a: re: one",
            "u: work hard",
            *rounds,
            "a: re: work hard",
        ),
        *("u: three", "a: re: three"),
    ]
    links = await session.links()
    assert shown(links[-1].conversation.messages) == shown(await session.messages()) == complete
    turns = [turn for link in links for turn in link.turns]
    described = await session.client.get_workflow_handle(f"{session.id}/2").describe()
    assert described.run_id != turns[1].first_run_id


async def test_what_turns_have_trimmed_is_in_the_messages(session: SessionStage) -> None:
    async with session.worker():
        await session.start(setup_of(session.agent, max_iterations=30, context_budget=700))
        await session.said("long 300")
        await session.said("work hard")
        assert await session.said("long 301") == "x" * 301
    last = (await session.links())[-1]
    assert len(last.conversation.messages) < 12
    told = shown(await session.messages())
    assert told[:4] == ["s: You are helpful.", "u: long 300", f"a: {'x' * 40}", "u: work hard"]
    assert told[-2:] == ["u: long 301", f"a: {'x' * 40}"]


async def test_what_no_guardrail_has_let_through_stays_known(session: SessionStage) -> None:
    """A turn that ends before the guardrail sees its tool's result; the next one begins in a new
    link.
    """
    session.gate.gives = "a secret"

    def no_secret(messages: list[Message]) -> bool:
        return not any("a secret" in message.text for message in messages)

    async with session.worker(guardrails={"discreet": Guardrails(input=no_secret)}):
        await session.start(
            setup_of(session.agent, guardrails="discreet", max_iterations=1, on_limit="partial")
        )
        for _ in range(4):
            await session.said("hi")
            await session.idle()
        await session.said("work")
        await session.idle()
        assert len(await session.links()) > 1
        await session.send("two")
        with pytest.raises(GuardrailError):
            await session.run(6).result()
        await session.idle()
        assert await session.said("three") == "re: three"
    assert "a secret" not in str(session.model.requests[-1].body)
    assert [text for text in await session.conversation() if text.startswith("t:")] == [
        f"t: {WITHHELD[:40]}"
    ]
