"""A session: turns one at a time, and nothing that was said is lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import pairwise

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import CancelledError

from perdure import GuardrailResult, Guardrails
from perdure.conversation import Conversation
from perdure.errors import GuardrailError, RunCancelled, RunError
from perdure.messages import ImagePart, Message, TextPart
from perdure.protocol import names
from perdure.protocol.session import HandedOver, SessionMessage, SessionNote
from tests.support.agents import Scripted
from tests.support.retention import reset
from tests.support.sessions import SessionStage, refusal, setup_of, shown, talk
from tests.support.waiting import wait_for

STARTS_CHILD = EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED
TASK_DONE = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
TASKS = (
    TASK_DONE,
    EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT,
)
"""How many there are depends on when the worker looks at the session."""


@pytest.fixture
async def session(
    client: Client, task_queue: str, scripted: Scripted
) -> AsyncIterator[SessionStage]:
    """A session; at the end of the test, what it recorded is replayed."""
    stage = SessionStage(client, task_queue, scripted(talk))
    yield stage
    await stage.replay()


async def test_turns_queued_messages_and_steering(session: SessionStage) -> None:
    async with session.worker():
        await session.start()
        assert await session.said("one") == "re: one"
        second = await session.send("hold on")
        assert (second.turn, second.run_id, bool(second.first_run_id)) == (
            2,
            f"{session.id}/2",
            True,
        )
        await asyncio.wait_for(session.gate.reached.wait(), 20)
        queued = await session.send("three", while_busy="queue", id="three")
        assert (queued.became, queued.turn, queued.run_id) == ("queued", 3, f"{session.id}/3")
        assert await refusal(session.send("no", while_busy="reject")) == "busy"
        steering = await session.send("listen")
        assert (steering.became, steering.run_id) == ("steering", second.run_id)
        assert (await session.status()).queued == 1
        session.gate.open.set()
        assert (await session.run(2).result()).output == "re: listen"
        assert (await session.idle()).turn == 3
        assert await session.send("three", id="three") == queued
        assert await session.conversation() == [
            *(
                "s: You are helpful.",
                "u: one",
                "a: re: one",
                "u: hold on",
                "a: ",
                "t: through",
                "u: listen",
            ),
            *("a: re: listen", "u: three", "a: re: three"),
        ]
    link = await session.link()
    assert [(turn.number, turn.ended) for turn in link.turns] == [
        (1, "done"),
        (2, "done"),
        (3, "done"),
    ]


async def test_every_turn_takes_the_same_events_and_no_activity(session: SessionStage) -> None:
    """However long the conversation is by then, and whether a turn begins with it or loads it."""
    async with session.worker():
        await session.start()
        for text in ("one", "long 9000", "two", "three"):
            await session.said(text)
            await session.idle()
    history = [
        event.event_type
        for event in (await session.link()).history
        if event.event_type not in TASKS
    ]
    begins = [place for place, type in enumerate(history) if type == STARTS_CHILD]
    turns = [history[begin:end] for begin, end in pairwise([*begins, len(history)])]
    update = [EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED]
    next_update = [EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED]
    child = [
        STARTS_CHILD,
        EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED,
        EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED,
    ]
    every = sorted([*child, *update, *next_update])
    assert list(map(sorted, turns)) == [every, every, every, sorted([*child, *update])]


async def test_what_a_turn_did_not_read_opens_the_next_one(session: SessionStage) -> None:
    async with session.worker():
        await session.start(setup_of(session.agent, max_iterations=1, on_limit="partial"))
        await session.send("hold")
        await asyncio.wait_for(session.gate.reached.wait(), 20)
        await session.send("too late")
        queued = await session.send("next", while_busy="queue")
        session.gate.open.set()
        assert (await session.idle()).turn == queued.turn == 2
        assert await session.conversation() == [
            *(
                "s: You are helpful.",
                "u: hold",
                "a: ",
                "t: through",
                "u: too late",
                "u: next",
                "a: re: next",
            ),
        ]
        opened = session.model.requests[-1].messages
        assert shown(opened)[-2:] == ["u: too late", "u: next"]


async def test_turns_that_end_badly_keep_what_was_said(session: SessionStage) -> None:
    async with session.worker():
        await session.start()
        await session.send("fail")
        with pytest.raises(RunError):
            await session.run(1).result()
        await session.idle()
        await session.send("hold 2")
        await asyncio.wait_for(session.gate.reached.wait(), 20)
        await session.run(2).cancel()
        session.gate.open.set()
        with pytest.raises(RunCancelled):
            await session.run(2).result()
        await session.idle()
        session.gate.open.clear()
        session.gate.reached.clear()
        await session.send("hold 3")
        await asyncio.wait_for(session.gate.reached.wait(), 20)
        await session.send("terminate")
        await session.client.get_workflow_handle(f"{session.id}/3").terminate()
        await session.idle()
        session.gate.open.set()
        assert await session.said("four") == "re: four"
        assert await session.conversation() == [
            *(
                "s: You are helpful.",
                "u: fail",
                "u: hold 2",
                "a: ",
                "t: through",
                "u: hold 3",
                "u: terminate",
            ),
            *("u: four", "a: re: four"),
        ]
    assert [turn.ended for turn in (await session.link()).turns] == [
        "failed",
        "cancelled",
        "terminated",
        "done",
    ]


def no_secret(messages: list[Message]) -> GuardrailResult:
    is_told = any("secret" in message.text for message in messages)
    return GuardrailResult(allowed=not is_told, reason="a secret" if is_told else None)


GUARDRAILS = {"discreet": Guardrails(input=no_secret)}


async def test_what_the_input_guardrail_refuses_is_no_part_of_the_conversation(
    session: SessionStage,
) -> None:
    size = 300_000
    async with session.worker(guardrails=GUARDRAILS):
        await session.start(setup_of(session.agent, guardrails="discreet"))
        await session.said(f"long {size}")
        await session.send("my secret")
        with pytest.raises(GuardrailError):
            await session.run(2).result()
        await session.idle()
        assert await session.said("three") == "re: three"
        assert [each["content"] for each in session.model.requests[-1].body["messages"]][
            -1
        ] == "three"
        assert "my secret" not in str(session.model.requests[-1].body)
        said = await session.conversation()
        assert [*said[:2], *said[3:]] == [
            "s: You are helpful.",
            f"u: long {size}",
            "u: three",
            "a: re: three",
        ]
    assert [message.text for message in await session.run(2).messages()][-1] == "my secret"


async def test_an_image_opens_a_turn_and_stays_in_the_conversation(session: SessionStage) -> None:
    """While a run is under way, it waits for a turn of its own: a run is steered with text."""
    image = ImagePart(source="iVBO" * 3_000, mediaType="image/png")
    async with session.worker():
        await session.start()
        assert await session.said("one", parts=[image]) == "re: one"
        assert await session.said("two") == "re: two"
        await session.send("hold on")
        await asyncio.wait_for(session.gate.reached.wait(), 20)
        queued = await session.send("", parts=[image], id="image")
        assert (queued.became, queued.turn) == ("queued", 4)
        assert queued.text_digest != SessionMessage(text="", id="image").text_digest
        assert (
            await refusal(
                session.send("", parts=[image.model_copy(update={"source": "iVBO" * 150_000})])
            )
            == "busy"
        )
        session.gate.open.set()
        assert (await session.idle()).turn == 4
        assert await refusal(session.send("")) == "empty"
        assert await refusal(session.send("", parts=[image] * 600)) == "too_large"
    url = {"url": f"data:image/png;base64,{image.source}"}
    seen = [{"type": "text", "text": "one"}, {"type": "image_url", "image_url": url}]
    assert [each.body["messages"][1]["content"] for each in session.model.requests] == [seen] * 5
    assert session.model.requests[-1].body["messages"][-1]["content"] == seen[1:]
    link = await session.link()
    assert [message.parts[-1] for message in link.conversation.messages if message.role == "user"][
        ::3
    ] == [
        image,
        image,
    ]


async def test_refusals(session: SessionStage) -> None:
    async with session.worker():
        await session.start()
        send = session.update
        assert await refusal(send(names.SEND)) == "unreadable"
        assert await refusal(send(names.SEND, "hello")) == "unreadable"
        assert await refusal(send(names.SEND, {"text": "hello", "id": ""})) == "unreadable"
        assert await refusal(session.send("  ")) == "empty"
        assert await refusal(session.send("x" * 1_100_000)) == "too_large"
        assert await refusal(session.send("hello", setup_digest="another")) == "setup"
        assert await refusal(session.send("hello", id="x" * 201)) == "unreadable"
        assert (await session.status()).turn == 0
        described = await session.handle.describe()
        assert described.history_length < 10


async def test_junk_neither_ends_nor_blocks_it(session: SessionStage) -> None:
    async with session.worker():
        await session.start()
        await session.send("hold")
        for name in (names.HAND_OVER, names.NOTE, "unheard of"):
            for junk in ([], ["text"], [{"turn": "x"}], [1, 2]):
                await session.handle.signal(name, args=junk)
        reference = {"base": 1, "version": 2, "digest": "x", "operations": []}
        await session.handle.signal(
            names.HAND_OVER, {"turn": 1, "reference": reference, "is_last": True}
        )
        await session.handle.signal(
            names.HAND_OVER, {"turn": 7, "reference": reference, "is_last": True}
        )
        await session.handle.signal(names.NOTE, SessionNote(type="seen", content={"by": "me"}))
        session.gate.open.set()
        await session.idle()
        assert await session.said("two") == "re: two"
    assert [each.note.content for each in (await session.link()).notes] == [{"by": "me"}]


async def test_another_agent_takes_over(session: SessionStage) -> None:
    async with session.worker():
        await session.start()
        await session.said("one")
        other = setup_of(session.agent, [Message.system("Be brief."), Message.system("Be kind.")])
        await session.said("two", setup=other, setup_digest="first")
        assert await session.said("three", setup_digest=other.digest) == "re: three"
        assert await session.conversation() == [
            *(
                "s: Be brief.",
                "s: Be kind.",
                "u: one",
                "a: re: one",
                "u: two",
                "a: re: two",
                "u: three",
                "a: re: three",
            ),
        ]
        assert shown(session.model.requests[1].messages)[:3] == [
            "s: Be brief.",
            "s: Be kind.",
            "u: one",
        ]
        assert await refusal(session.send("four", setup_digest="first")) == "setup"


async def test_close_waits_for_what_was_taken(session: SessionStage) -> None:
    async with session.worker():
        await session.start()
        await session.send("hold")
        await asyncio.wait_for(session.gate.reached.wait(), 20)
        await session.send("two", while_busy="queue")
        closing = await session.update(names.CLOSE)
        assert (closing.status, closing.is_closing) == ("running", True)
        assert await refusal(session.send("three")) == "closing"
        session.gate.open.set()
        result = await session.handle.result()
        assert (result.status, result.reason, result.turn, result.queued) == (
            "ended",
            "closed",
            2,
            0,
        )


async def test_it_closes_when_nobody_says_anything(session: SessionStage) -> None:
    async with session.worker():
        await session.start(idle_timeout=0.3)
        assert (await session.handle.result()).status == "ended"


async def test_one_timer_serves_many_turns(session: SessionStage) -> None:
    async with session.worker():
        await session.start(idle_timeout=3600)
        for text in ("one", "two", "three"):
            await session.send(text)
            await session.idle()
    timers = [
        event
        for event in (await session.link()).history
        if event.HasField("timer_started_event_attributes")
    ]
    assert len(timers) == 1


async def test_a_cancelled_session_cancels_its_run(session: SessionStage) -> None:
    async with session.worker():
        await session.start()
        await session.send("hold")
        await asyncio.wait_for(session.gate.reached.wait(), 20)
        assert (await session.send("unread")).became == "steering"
        await session.send("never", while_busy="queue")
        await session.handle.cancel()
        await wait_for(session.run_is_asked_to_end)
        session.gate.open.set()
        with pytest.raises(WorkflowFailureError) as ended:
            await session.handle.result()
        assert isinstance(ended.value.cause, CancelledError)
        with pytest.raises(RunCancelled):
            await session.run(1).result()
    known = ["s: You are helpful.", "u: hold", "a: ", "t: through", "u: unread"]
    assert await session.conversation() == known


async def test_a_session_that_is_reset_while_a_run_is_under_way(session: SessionStage) -> None:
    async with session.worker():
        await session.start()
        await session.said("one")
        await session.idle()
        await session.send("hold")
        await asyncio.wait_for(session.gate.reached.wait(), 20)
        await reset_before(session, before_turn=2)
        session.gate.open.set()

        async def second_is_done() -> bool:
            return (await session.status()).turn == 2

        await wait_for(second_is_done, timeout=60)
        await session.idle()
        assert await session.conversation() == [
            *(
                "s: You are helpful.",
                "u: one",
                "a: re: one",
                "u: hold",
                "a: ",
                "t: through",
                "a: re: hold",
            ),
        ]
        assert await session.said("three") == "re: three"


async def reset_before(session: SessionStage, before_turn: int) -> None:
    """Let the session go on from where that turn had not begun yet, as an operator may."""
    link = await session.link()
    begins = [event.event_id for event in link.history if event.event_type == STARTS_CHILD][
        before_turn - 1
    ]
    tasks = [
        event.event_id
        for event in link.history
        if event.event_type == TASK_DONE and event.event_id < begins
    ]
    await reset(session.client, session.id, link.run_id, tasks[-1])


async def test_messages_at_any_moment_count_once(session: SessionStage) -> None:
    await check_moments(session, senders=3, each=4)


async def check_moments(session: SessionStage, senders: int, each: int) -> None:
    """Messages that steer or wait, whenever they come: every one is said once, and each sender's
    stay in order.
    """
    chosen = random.Random(1)

    async def sender(name: int) -> None:
        for number in range(each):
            busy = chosen.choice(["steer", "steer", "queue"])
            await session.send(f"from {name}: {number}", while_busy=busy, id=f"{name}-{number}")
            await asyncio.sleep(chosen.random() * 0.1)

    async with session.worker():
        await session.start()
        await asyncio.gather(*(sender(name) for name in range(senders)))
        last = await session.idle(timeout=300)
    said = [text[3:] for text in await session.conversation() if text.startswith("u: ")]
    assert sorted(said) == sorted(
        f"from {name}: {number}" for name in range(senders) for number in range(each)
    )
    begun = {turn.number for link in await session.links() for turn in link.turns}
    assert begun == set(range(1, last.turn + 1))


async def test_a_terminated_session_cancels_its_run(session: SessionStage) -> None:
    async with session.worker():
        await session.start()
        await session.send("hold")
        await asyncio.wait_for(session.gate.reached.wait(), 20)
        await session.handle.terminate()
        await wait_for(session.run_is_asked_to_end)
        session.gate.open.set()
        with pytest.raises(RunCancelled):
            await session.run(1).result()
        assert [event.type for event in await session.run(1).events()][-1] == "cancelled"


async def test_what_is_too_much_to_read_at_once_is_read_in_the_next_tasks(
    session: SessionStage,
) -> None:
    """A long turn hands over in many parts, and its end may come with them while the session's
    worker is away; a late part of the turn before is not one of them.
    """
    async with session.worker(graceful_shutdown_timeout=timedelta(0)):
        await session.start()
        assert await session.said("one") == "re: one"
        second = await session.send("hold on")
        await asyncio.wait_for(session.gate.reached.wait(), 20)
    known = (await session.link()).conversation
    late = Conversation.recorded(known.messages, version=known.version, digest=known.digest)
    late.append([Message.user("too late")])
    part = HandedOver(turn=1, reference=late.ref(), is_last=False)
    await session.client.get_workflow_handle(session.id).signal(names.HAND_OVER, part)
    turn = Conversation.recorded(known.messages, version=known.version, digest=known.digest)
    for number in range(14):
        turn.append(
            [
                Message(
                    role="user", parts=[TextPart(value=f"{number}"), *[TextPart(value="")] * 5_000]
                )
            ]
        )
        part = HandedOver(turn=2, reference=turn.ref(), is_last=number == 13)
        await session.client.get_workflow_handle(session.id).signal(names.HAND_OVER, part)
    await session.client.get_workflow_handle(second.run_id).terminate()
    session.gate.open.set()
    async with session.worker():
        assert await session.said("three") == "re: three"
        link = await session.link()
    said = shown(link.conversation.messages)
    assert said == [
        "s: You are helpful.",
        "u: one",
        "a: re: one",
        *(f"u: {number}" for number in range(14)),
        *said[-2:],
    ]
    assert "perdure-postponed-signal-14" in str(link.history)


async def test_readers_leave_out_what_the_session_has_skipped(session: SessionStage) -> None:
    """A part that is too much to read even alone: without it, the turn has handed over nothing."""
    async with session.worker(graceful_shutdown_timeout=timedelta(0)):
        await session.start()
        second = await session.send("hold on")
        await asyncio.wait_for(session.gate.reached.wait(), 20)
    known = (await session.link()).conversation
    turn = Conversation.recorded(known.messages, version=known.version, digest=known.digest)
    turn.append([Message(role="user", parts=[TextPart(value="")] * 45_000)])
    part = HandedOver(turn=1, reference=turn.ref(), is_last=True)
    await session.client.get_workflow_handle(session.id).signal(names.HAND_OVER, part)
    await session.client.get_workflow_handle(second.run_id).terminate()
    session.gate.open.set()
    async with session.worker():
        assert await session.said("two") == "re: two"
    assert await session.conversation() == [
        "s: You are helpful.",
        "u: hold on",
        "u: two",
        "a: re: two",
    ]
    assert "perdure-dropped-signal-1" in str((await session.link()).history)
