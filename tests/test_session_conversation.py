"""What a session keeps of what its turns hand over."""

from __future__ import annotations

import pytest

from perdure.conversation import Append, Conversation, ConversationRef, Operation, Trim
from perdure.messages import Message, ToolCall, ToolResult
from perdure.session_conversation import WITHHELD, SessionConversation, handed_over, let_through

SEED = [Message.system("Be kind."), Message.user("one"), Message.assistant("two")]
CALL = ToolCall(id="c", name="look", arguments="{}")
QUESTION, ANSWER = Message.user("three"), Message.assistant("four")


@pytest.fixture
def session() -> SessionConversation:
    found = SessionConversation(Conversation.recorded(SEED))
    found.begin([QUESTION])
    return found


def begun(session: SessionConversation) -> Conversation:
    """The conversation of a turn that goes on from the session's."""
    known = session.conversation
    turn = Conversation.recorded(known.messages, version=known.version, digest=known.digest)
    turn.append([QUESTION])
    return turn


def texts(session: SessionConversation) -> list[str]:
    return [message.text for message in session.conversation.messages]


def test_what_comes_in_parts_counts_when_it_is_complete(session: SessionConversation) -> None:
    turn = begun(session)
    first = turn.ref()
    turn.append([ANSWER])
    assert session.hand_over(first, is_last=False)
    assert texts(session) == ["Be kind.", "one", "two"]
    assert session.hand_over(turn.ref(), is_last=True, unread=1)
    assert session.end()
    assert texts(session) == ["Be kind.", "one", "two", "three", "four"]
    assert (session.unread, session.conversation.digest) == (1, turn.digest)


def test_what_goes_on_from_nothing_known_is_refused(session: SessionConversation) -> None:
    turn = begun(session)
    good = turn.ref()
    assert session.hand_over(good, is_last=True)
    for bad in (
        ConversationRef(base=7, version=8, digest="x", operations=[Append(messages=[ANSWER])]),
        ConversationRef(base=1, version=2, digest="x", operations=[Append(messages=[ANSWER])]),
        ConversationRef(base=1, version=3, digest=good.digest, operations=[]),
    ):
        assert not session.hand_over(bad, is_last=True)
    assert session.end()
    assert texts(session)[-1] == "three"


@pytest.mark.parametrize("is_known", [True, False])
def test_the_view_is_handed_over_where_it_takes_less(
    session: SessionConversation, is_known: bool
) -> None:
    start, turn = session.conversation.ref(), begun(session)
    turn.append([Message.assistant("x" * 1000)])
    operations: list[Operation] = [
        *turn.operations,
        Trim(head=1, drop=4, summary=Message.user("in short")),
    ]
    turn.apply(operations[-1])
    told = handed_over(start, operations if is_known else None, turn)
    assert [operation.op for operation in told.operations] == ["rewrite"]
    assert session.hand_over(told.ref(), is_last=True)
    session.end()
    assert texts(session) == ["Be kind.", "in short"]


@pytest.mark.parametrize("is_trimmed", [True, False])
def test_what_a_guardrail_has_refused_stays_out(
    session: SessionConversation, is_trimmed: bool
) -> None:
    start, turn = session.conversation.ref(), begun(session)
    turn.append([Message.assistant("", [CALL])])
    if is_trimmed:
        turn.trim(1, 2, Message.user("in short"))
    turn.append([Message.tool(CALL, ToolResult.of_text("a secret")), Message.user("a secret, too")])
    end = len(turn.messages)
    told = let_through(start, turn.operations, turn, range(end - 2, end))
    assert session.hand_over(told.ref(), is_last=True)
    assert session.end()
    before = ["in short"] if is_trimmed else ["one", "two"]
    assert texts(session) == ["Be kind.", *before, "three", "", WITHHELD]
    assert [operation.op for operation in told.operations] == (
        ["rewrite"] if is_trimmed else ["append"]
    )


def test_new_instructions_take_the_place_of_the_old_ones(session: SessionConversation) -> None:
    session.hand_over(begun(session).ref(), is_last=True)
    session.end()
    session.reference(whole=True)
    session.instruct([Message.system("Be brief.")])
    assert texts(session) == ["Be brief.", "one", "two", "three"]
    kept = session.reference(whole=False)
    assert [operation.op for operation in kept.operations] == ["instruct"]
    assert (kept.base, kept.version) == (1, 2)


def test_messages_of_a_turn_that_hands_over_nothing_stay_unchecked(
    session: SessionConversation,
) -> None:
    assert not session.end()
    assert (texts(session)[-1], session.unchecked) == ("three", 1)
