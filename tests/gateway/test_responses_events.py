"""A run's events as those of a response: numbers, and texts that do not count."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.client.reading.events import Cursor, Speech
from perdure.events import RunEvent
from perdure.gateway.problems import HttpProblem
from perdure.gateway.responses_events import ResponseEvents
from perdure.gateway.responses_text import Frame, text_in
from perdure.gateway.responses_wire import AskedCall, ResponseId, response_body
from perdure.messages import Message
from perdure.protocol.activities import StreamedText

ID = ResponseId("run", in_background=True)
ANSWER = "The whole answer."


def events_of(
    after: int | None = None, held_back: int | None = 0, id: ResponseId = ID
) -> ResponseEvents:
    return ResponseEvents(id, response_body(id, "agent", 0.0, {}), held_back=held_back, after=after)


def event(seq: int, type: Any, **data: Any) -> RunEvent:
    return RunEvent(
        seq=seq,
        type=type,
        iteration=1,
        data=data,
        position=str(seq),
        call_id=data.pop("call", None),
    )


def recorded(lost: int = 0, answer: str = ANSWER) -> list[RunEvent]:
    """A run of one model call, as its log has it."""
    return [
        event(1, "llm_start"),
        event(2, "token", token=ANSWER),
        event(3, "llm_complete", usage={"input_tokens": 1, "output_tokens": 2}, lostAttempts=lost),
        event(4, "messages_updated", messages=[Message.user("Hi"), Message.assistant(answer)]),
        event(5, "done", response=answer),
    ]


def live(cursor: Cursor, attempt: int, text: str) -> list[RunEvent]:
    said = StreamedText(iteration=1, attempt=attempt, text=text)
    return list(cursor.live_news(Speech(f"7-{attempt}", said)))


def frames(made: ResponseEvents, events: list[RunEvent]) -> list[Frame]:
    return [each for news in events for each in made.take(news)]


def texts(given: list[Frame]) -> dict[str, str]:
    """The text of each item that a client has in the end, by its deltas alone."""
    found: dict[str, str] = {}
    for each in given:
        if each["type"] == "response.output_text.delta":
            found[each["item_id"]] = found.get(each["item_id"], "") + each["delta"]
        if each["type"] == "response.output_item.done" and each["item"]["status"] == "incomplete":
            found.pop(each["item"]["id"], None)
    return found


def watched(*attempts: tuple[int, str]) -> list[RunEvent]:
    """What a reader is given who watches all the while: parts of attempts, then the rest of the
    log.
    """
    cursor, seen = Cursor(), list[RunEvent]()
    first, *others = recorded(lost=max(number for number, _ in attempts) - 1)
    seen += cursor.recorded_news(first)
    for attempt, text in attempts:
        seen += live(cursor, attempt, text)
    return [*seen, *(news for each in others for news in cursor.recorded_news(each))]


@pytest.mark.parametrize(
    "attempts",
    [
        [(1, "The"), (1, "The whole")],
        [(1, "Another"), (2, "The wh")],
        [(1, "Another"), (2, "A third one"), (3, ANSWER)],
        [(1, "Another text that is longer than the answer")],
    ],
)
def test_whoever_goes_on_has_the_text_once(attempts: list[tuple[int, str]]) -> None:
    """After each number, at a gateway that knows the log alone, or that watches the last
    attempt.
    """
    made = events_of()
    given = [*made.begin(), *frames(made, watched(*attempts))]
    numbers = [each["sequence_number"] for each in given]
    assert numbers == sorted(set(numbers))
    assert list(texts(given).values()) == [ANSWER]
    lost = attempts[-1][0] - 1
    for place, number in enumerate(numbers):
        for following in (recorded(lost), watched(attempts[-1])):
            other = events_of(number)
            rest = frames(other, following)
            assert list(texts([*given[: place + 1], *rest]).values()) == [ANSWER], number
            more = [each["sequence_number"] for each in rest]
            assert more == sorted(set(more))
            assert all(number < each for each in more)
            ends = [each for each in rest if each["type"] == "response.completed"]
            assert len(ends) == (place < len(given) - 1)
            assert all(
                each["response"]["output"][0]["content"][0]["text"] == ANSWER for each in ends
            )


def test_what_a_guardrail_has_rewritten_is_the_only_answer() -> None:
    for held_back in (None, 0):
        made = events_of(held_back=held_back)
        given = frames(made, recorded(answer="Rewritten."))
        assert list(texts(given).values()) == ["Rewritten."]
        assert [each["content"][0]["text"] for each in made.body["output"]] == ["Rewritten."]


def test_text_that_precedes_a_call_is_closed() -> None:
    start, token, complete, _, _ = recorded()
    called = event(4, "tool_call_start", name="f", arguments="{}")
    ended = event(5, "tool_result", name="f", result="x")
    position = str(live(Cursor(), 1, ANSWER)[0].position)
    given = frames(
        events_of(), [start, token.model_copy(update={"position": position}), complete, called]
    )
    assert texts(given) == {}
    assert [each["item"]["type"] for each in given if "item" in each] == ["message", "message"]
    assert frames(events_of(held_back=None), [start, complete, called]) == [], (
        "it may wait for a person"
    )
    given = frames(events_of(held_back=None), [start, complete, called, ended])
    types = [
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.done",
        "mcp_call.completed",
    ]
    assert [each["type"] for each in given] == [
        f"response.{each}" for each in (*types, "output_item.done")
    ]


def test_a_run_that_ends_in_a_text_closes_it_and_fails_once() -> None:
    for number in (None, frames(events_of(), watched((1, "The")))[2]["sequence_number"]):
        made = events_of(number)
        ended = event(2, "failed", kind="terminated", message="from outside").model_copy(
            update={"iteration": 0}
        )
        given = frames(made, [recorded()[0], *([] if number else live(Cursor(1), 1, "The")), ended])
        kinds = [each["type"] for each in given]
        assert kinds[-2:] == ["response.output_item.done", "response.failed"]
        assert made.body["error"] == {"code": "terminated", "message": "from outside"}
        assert frames(made, recorded()) == []


def test_what_ids_and_numbers_say_can_be_read_again() -> None:
    for id in (ResponseId("a/2"), ResponseId("resp_0b_x", 3, in_background=True)):
        assert ResponseId.read(str(id)) == id
    asked = AskedCall(run="ä:1", call="c", digest="d", part=1)
    assert AskedCall.read(f"mcpr_{asked}") == asked
    assert text_in(2) is None


def test_a_gateway_that_can_t_go_on_leaves_room_for_what_follows() -> None:
    made = events_of()
    given = frames(made, watched((1, "The"))[:2])
    failed = made.failure(HttpProblem(503, "temporal_unavailable", "away"))
    rest = frames(events_of(failed["sequence_number"]), recorded())
    assert list(texts([*given, *rest]).values()) == [ANSWER]
