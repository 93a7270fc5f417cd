"""§13.3: what the context costs, what is dropped, and what stands in its place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.messages import AudioPart, ImagePart, Message, TextPart, ToolCall, ToolResult
from perdure.trimming import (
    estimate_chars,
    plan_trim,
    summarize_dropped,
    summary_budget,
    trim_to_context_window,
)

CALL = ToolCall(id="1", name="look", arguments='{"at": "ü"}')
OTHER = ToolCall(id="2", name="hear", arguments="")
SYSTEM = Message.system("Be brief.")


@pytest.mark.parametrize(
    ("message", "chars"),
    [
        (Message.user(""), 8),
        (Message.user("Hi ü"), 4 + 4 + 4),
        (Message.assistant("Hi"), 9 + 4 + 2),
        (Message(role="user", parts=[TextPart(value="a"), TextPart(value="bc")]), 4 + 4 + 3),
        (
            Message(role="user", parts=[ImagePart(source="x" * 9999), AudioPart(source="y")]),
            4 + 4 + 400,
        ),
        (Message.tool(CALL, ToolResult.of_text("seen")), 4 + 4 + 4),
        (Message.assistant("", [CALL]), 9 + 4 + len(json.dumps([CALL.to_metadata()]))),
        (
            Message.assistant("Hi", [CALL, OTHER]),
            9 + 4 + 2 + len(json.dumps([CALL.to_metadata(), OTHER.to_metadata()])),
        ),
    ],
)
def test_estimate(message: Message, chars: int) -> None:
    assert estimate_chars([message]) == chars
    assert estimate_chars([message, message]) == 2 * chars


def test_summary() -> None:
    dropped = [
        SYSTEM,
        Message.user("What is " + "very " * 50 + "old?"),
        Message.assistant("Stones.", [CALL, OTHER]),
        Message.tool(CALL, ToolResult.of_text("seen")),
        Message.assistant("", [CALL]),
        Message.assistant("a" * 300),
        Message(role="user", parts=[ImagePart(source="x")]),
    ]
    assert summarize_dropped(dropped).split("\n") == [
        ("User asked: What is " + "very " * 50)[: 12 + 200],
        "Assistant: Stones.",
        "  Called tools: look, hear",
        "  Called tools: look",
        "Assistant: " + "a" * 200,
        "User asked: ",
    ]


def test_a_share_of_the_budget_leaves_room_to_grow() -> None:
    messages = [SYSTEM, *[Message.user("u" * 92) for _ in range(30)]]
    sizes = [estimate_chars([message]) for message in messages]
    kept = {}
    for share in (1.0, 0.6, 0.3):
        plan = plan_trim(messages, sizes, 2500, trim_to=share)
        assert plan is not None
        kept[share] = 30 - plan.drop
    assert kept == {1.0: 23, 0.6: 13, 0.3: 6}
    assert plan_trim(messages[:20], sizes[:20], 2500, trim_to=0.3) is None, "it fits"


def answered(*calls: ToolCall, chars: int = 100) -> list[Message]:
    return [
        Message.assistant("", calls),
        *[Message.tool(call, ToolResult.of_text("r" * chars)) for call in calls],
    ]


groups = st.lists(
    st.one_of(
        st.builds(lambda size: [Message.user("u" * size)], st.integers(0, 300)),
        st.builds(lambda size: [Message.assistant("a" * size)], st.integers(0, 300)),
        st.builds(
            lambda calls, size: answered(*calls, chars=size),
            st.lists(st.just(CALL), min_size=1, max_size=3),
            st.integers(0, 300),
        ),
        st.just([SYSTEM]),
    ),
    max_size=12,
)


@settings(max_examples=200, deadline=None)
@given(groups, st.integers(1, 3000))
def test_what_holds_of_every_trim(groups: list[list[Message]], budget: int) -> None:
    messages = [message for group in groups for message in group]
    kept, dropped = trim_to_context_window(messages, budget)
    if not dropped:
        assert kept == messages
        droppable = [group for group in groups if not group[0].instructs]
        assert estimate_chars(messages) <= budget or sum(map(len, droppable[1:])) < 2
        return
    assert estimate_chars(messages) > budget
    systems = [message for message in messages if message.instructs]
    assert [message for message in kept if message.instructs] == systems
    others = [message for group in groups for message in group if not message.instructs]
    assert others[: len(dropped)] == dropped
    remaining = [
        message
        for message in kept
        if not message.instructs and not message.text.startswith("[Context")
    ]
    assert remaining == others[len(dropped) :]
    assert len(remaining) >= 2
    assert remaining[0].role != "tool", "no group is split"
    plan = plan_trim(messages, [estimate_chars([message]) for message in messages], budget)
    assert plan is not None
    target = budget - summary_budget(budget)
    assert estimate_chars([*systems, *remaining]) <= target or _is_one_group_too_many(remaining)


def _is_one_group_too_many(remaining: list[Message]) -> bool:
    """Whether dropping one more group would leave less than two messages."""
    end = next(
        (index for index, message in enumerate(remaining[1:], 1) if message.role != "tool"),
        len(remaining),
    )
    return len(remaining) - end < 2


@given(st.lists(st.integers(0, 4), max_size=12), st.integers(1, 4000), st.integers(2, 9))
@settings(deadline=None, max_examples=60)
def test_calls_and_their_results_are_dropped_together_or_not_at_all(
    rounds: list[int], budget: int, keep: int
) -> None:
    """An assistant message with tool calls, and all results of these, are one group."""
    messages = [SYSTEM, Message.user("Begin " * 20)]
    for number, calls in enumerate(rounds):
        asked = [
            ToolCall(id=f"{number}-{index}", name="look", arguments="{}") for index in range(calls)
        ]
        messages.append(Message.assistant("So.", asked))
        messages += [Message.tool(call, ToolResult.of_text("seen " * 30)) for call in asked]
    plan = plan_trim(messages, [estimate_chars([each]) for each in messages], budget, keep=keep)
    dropped = plan.dropped_messages(messages) if plan else []
    gone = set(map(id, dropped))
    left = [message for message in messages if id(message) not in gone and not message.instructs]
    asked_ids = [call.id for message in left for call in message.tool_calls]
    assert asked_ids == [
        message.metadata["tool_call_id"] for message in left if message.role == "tool"
    ]
    assert len(left) >= min(keep, len(messages) - 1)
