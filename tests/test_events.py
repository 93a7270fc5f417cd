"""§13.1: the log of a run's events, page by page, and what a reader makes of it."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.conversation import Conversation
from perdure.events import PAGE_CHARS, EventLog, EventPage, EventReader, RunEvent
from perdure.messages import Message

HELLO = [Message.system("Be brief."), Message.user("Hi")]


def pages(log: EventLog, after: int = 0) -> list[EventPage]:
    """Every page of the log, as they arrive in another process."""
    found: list[EventPage] = []
    while not found or found[-1].more:
        last = found[-1].events[-1].seq if found else after
        found.append(EventPage.model_validate_json(log.page(last).model_dump_json()))
    return found


def read(log: EventLog, seed: list[Message]) -> list[RunEvent]:
    reader = EventReader(seed)
    return [event for page in pages(log) for event in reader.read(page)]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["status", "append", "large", "trim", "rewrite", "read"]), max_size=25)
)
def test_pages_hold_what_happened(steps: list[str]) -> None:
    conversation = Conversation(HELLO)
    log, reader = EventLog(conversation), EventReader(HELLO)
    live: list[RunEvent] = []
    lists: list[list[Message]] = []
    for number, step in enumerate(steps):
        match step:
            case "append":
                conversation.append([Message.user(f"{number}"), Message.assistant("well")])
            case "large":
                conversation.append([Message.user("x" * (PAGE_CHARS // 2))] * 3)
            case "trim":
                conversation.trim(1, len(conversation.messages) - 1, Message.user("[…]"))
            case "rewrite":
                conversation.rewrite(HELLO)
            case "read":
                live += reader.read(log.page(live[-1].seq if live else 0))
                continue
        log.append(
            "status" if step == "status" else "messages_updated",
            number,
            {"n": number},
            time=float(number),
        )
        lists.append(list(conversation.messages))
    seen = read(log, HELLO)
    assert [event.seq for event in seen] == list(range(1, len(lists) + 1))
    assert seen[: len(live)] == live
    for event, messages in zip(seen, lists, strict=True):
        assert event.data.get("messages", messages) == messages
        assert (event.type == "messages_updated") == ("messages" in event.data)


def filled(count: int, **data: Any) -> EventLog:
    log = EventLog(Conversation(HELLO))
    for number in range(count):
        log.append("status", 1, {"message": f"{number}", **data}, time=0.0)
    return log


def test_the_log_of_a_later_link_goes_on_counting() -> None:
    conversation = Conversation.recorded(
        [*HELLO, Message.assistant("Hello")], version=7, digest="0" * 32
    )
    log = EventLog(conversation, last_seq=40)
    assert log.last_seq == 40
    conversation.append([Message.user("Bye")])
    log.append("messages_updated", 3, {}, time=0.0)
    assert log.last_seq == 41
    for after in (0, 39, 40):
        page = log.page(after)
        assert ([event.seq for event in page.events], page.base) == ([41], 7)
    reader = EventReader([*HELLO, Message.assistant("Hello")], version=7)
    (event,) = reader.read(log.page(0))
    assert event.data["messages"][-1].text == "Bye"


def test_a_page_is_bounded_unless_one_event_is_not() -> None:
    log = filled(10, filling="x" * (PAGE_CHARS // 4))
    assert [len(page.events) for page in pages(log)] == [3, 3, 3, 1]
    log = filled(3, filling="x" * (2 * PAGE_CHARS))
    assert [len(page.events) for page in pages(log)] == [1, 1, 1]
