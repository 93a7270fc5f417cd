"""The recorded conversation: whoever follows its references has the same messages, or notices that
it has not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.conversation import (
    Append,
    Conversation,
    ConversationRef,
    DigestMismatchError,
    Trim,
    batches,
    message_chars,
    operation_bytes,
    total_bytes,
)
from perdure.history.transcript import Transcript
from perdure.messages import ImagePart, Message, ToolCall, ToolResult

CALL = ToolCall(id="1", name="look", arguments='{"at": "sky"}')
HELLO = [Message.system("Be brief."), Message.user("Hi")]


Sketch = list[tuple[str, int]]
"""Kind and size of each message: long texts would only fill hypothesis's reports."""

SKETCHES = st.lists(
    st.tuples(
        st.sampled_from(["user", "calls", "tool", "image"]),
        st.sampled_from([0, 1, 200, 200, 30_000, 90_000]),
    ),
    max_size=4,
)


def drawn(sketch: Sketch) -> list[Message]:
    make: dict[str, Callable[[str], Message]] = {
        "user": Message.user,
        "calls": lambda text: Message.assistant(text, [CALL]),
        "tool": lambda text: Message.tool(CALL, ToolResult.failure(text, kind="odd")),
        "image": lambda text: Message(
            role="user", parts=[ImagePart(source=f"data:{text}", detail="low")]
        ),
    }
    return [make[kind]("✓" * size) for kind, size in sketch]


@dataclass
class Actors:
    """The one who changes the conversation, and one who follows every reference."""

    seed: list[Message]
    writer: Conversation
    follower: Conversation
    recorded: list[ConversationRef] = field(default_factory=list)
    """What the inputs of activities have recorded."""

    def step(self, kind: str, sketch: Sketch, number: int) -> None:
        news = drawn(sketch)
        match kind:
            case "append":
                self.writer.append(news)
            case "rewrite":
                self.writer.rewrite(news)
            case "trim":
                head = number % (len(self.writer.messages) + 1)
                drop = number % (len(self.writer.messages) - head + 1)
                self.writer.trim(head, drop, Message.user(f"[Context summary: {number}]"))
            case "look":
                self.follow(self.writer.ref(record=False))
            case "call":
                self.record(self.writer.ref())
            case "ahead":
                for reference in self.writer.partial_refs(1000 * number):
                    self.record(reference)
            case "forget":
                self.follower.forget_operations()

    def record(self, reference: ConversationRef) -> None:
        self.recorded.append(reference)
        self.follow(reference)

    def follow(self, reference: ConversationRef) -> None:
        if self.follower.version > reference.version:
            # It is ahead, by a reference that was not recorded: such a follower reads the history
            # anew.
            with pytest.raises(DigestMismatchError):
                self.follower.follow(travelled(reference))
            self.follower = self.read()
        self.follower.follow(travelled(reference))

    def read(self) -> Conversation:
        """The conversation as the history tells it."""
        copy = Conversation.recorded(self.seed)
        for reference in self.recorded:
            copy.follow(travelled(reference))
        return copy


def travelled(reference: ConversationRef) -> ConversationRef:
    """The reference as it arrives in another process."""
    return ConversationRef.model_validate_json(reference.model_dump_json())


STEPS = st.tuples(
    st.sampled_from(
        ["append", "append", "append", "rewrite", "trim", "look", "call", "ahead", "forget"]
    ),
    SKETCHES,
    st.integers(0, 500),
)


@settings(max_examples=60, deadline=None)
@given(SKETCHES, st.lists(STEPS, max_size=15))
def test_followers_always_have_equal_messages_and_digest(sketch: Sketch, steps: list[Any]) -> None:
    seed = drawn(sketch)
    writer = Conversation.recorded(seed)
    assert writer.digest == Conversation.recorded(seed).digest
    actors = Actors(seed, writer, Conversation.recorded(seed))
    for kind, news, number in steps:
        actors.step(kind, news, number)
    actors.record(writer.ref())
    for copy in (actors.follower, actors.read()):
        assert (copy.messages, copy.version, copy.digest) == (
            writer.messages,
            writer.version,
            writer.digest,
        )
    assert [
        operation for ref in actors.recorded for operation in ref.operations
    ] == writer.operations
    assert writer.sizes == [message_chars(message) for message in writer.messages]
    assert writer.recorded_bytes == total_bytes(writer.messages)


@settings(max_examples=40, deadline=None)
@given(SKETCHES, st.lists(SKETCHES, max_size=5), st.integers(1, 700_000))
def test_references_ahead_are_bounded(sketch: Sketch, appended: list[Sketch], limit: int) -> None:
    writer = Conversation.recorded(drawn(sketch))
    for news in appended:
        writer.append(drawn(news))
    for batch in batches(writer.messages, limit):
        assert total_bytes(batch) <= limit or len(batch) == 1
    for reference in writer.partial_refs(limit):
        size = sum(map(operation_bytes, reference.operations))
        assert size <= limit or len(reference.operations) == 1
    assert (
        len(writer.unrecorded_operations) <= 1
        or sum(map(operation_bytes, writer.unrecorded_operations)) <= limit
    )


def changed(reference: ConversationRef, **fields: Any) -> ConversationRef:
    return reference.model_copy(update=fields)


def test_what_does_not_fit_is_noticed() -> None:
    writer = Conversation.recorded(HELLO)
    writer.append([Message.assistant("Hello")])
    writer.append([Message.user("Bye")])
    reference = writer.ref()
    first, second = reference.operations
    other = Append(messages=[Message.user("Good-bye")])
    for wrong in (
        changed(reference, operations=[first, other]),
        changed(reference, operations=[second, first]),
        changed(reference, operations=[first]),
        changed(reference, operations=[first, second, other]),
        changed(reference, digest="0" * 32),
        changed(reference, base=1),
        changed(reference, version=3),
    ):
        with pytest.raises(DigestMismatchError):
            Conversation.recorded(HELLO).follow(wrong)
    with pytest.raises(DigestMismatchError):
        Conversation.recorded([Message.user("Hi")]).follow(reference)
    ahead = Conversation.recorded(HELLO)
    ahead.follow(reference)
    ahead.append([Message.user("more")])
    with pytest.raises(
        DigestMismatchError, match="is at version 3, the operations lead from 0 to 2"
    ):
        ahead.follow(reference)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Message.user("a"), Message.assistant("a")),
        (
            Message.user("a"),
            Message(role="user", parts=[*Message.user("a").parts, *Message.user("").parts]),
        ),
        (
            Message.assistant("", [CALL]),
            Message.assistant("", [CALL.model_copy(update={"arguments": "{}"})]),
        ),
        (
            Message.tool(CALL, ToolResult.of_text("a")),
            Message.tool(CALL, ToolResult.failure("a", kind="k")),
        ),
        *[
            (
                Message.model_validate(
                    {"role": "user", "parts": [{"kind": "image", "source": "a"}]}
                ),
                Message.model_validate({"role": "user", "parts": [{"kind": kind, "source": "a"}]}),
            )
            for kind in ("file", "audio")
        ],
    ],
)
def test_different_messages_have_different_digests(one: Message, other: Message) -> None:
    assert Conversation.recorded([one]).digest != Conversation.recorded([other]).digest
    digests = set()
    for message in (one, other):
        for way in ("append", "rewrite"):
            writer = Conversation.recorded([])
            getattr(writer, way)([message])
            digests.add(writer.digest)
    assert len(digests) == 4


def test_a_conversation_goes_on_from_a_version_and_a_digest() -> None:
    writer, follower = Conversation.recorded(HELLO), Conversation.recorded(HELLO)
    writer.append([Message.assistant("Hello")])
    follower.follow(writer.ref())
    next_link = Conversation.recorded(writer.messages, version=writer.version, digest=writer.digest)
    next_link.append([Message.user("Bye")])
    follower.follow(travelled(next_link.ref()))
    assert follower.messages == next_link.messages
    loaded = Conversation.recorded([], version=writer.version, digest=writer.digest)
    loaded.load(writer.messages)
    assert (loaded.messages, loaded.digest, loaded.version) == (
        writer.messages,
        writer.digest,
        writer.version,
    )
    with pytest.raises(ValueError, match="only an empty conversation"):
        loaded.load(HELLO)


def test_the_transcript_keeps_what_trimming_drops() -> None:
    writer, transcript = Conversation.recorded(HELLO), Transcript(HELLO)
    said = [Message.user(f"{number}") for number in range(5)]
    for message in said:
        writer.append([message])
    writer.trim(1, 4, Message.user("[Context summary: …]"))
    writer.append([Message.assistant("Done")])
    transcript.follow(writer.operations)
    assert transcript.messages == [*HELLO, *said, Message.assistant("Done")]


def test_the_transcript_holds_what_a_guardrail_put_in_place() -> None:
    writer, transcript = Conversation.recorded(HELLO), Transcript(HELLO)
    writer.append([Message.user("My number is 555")])
    writer.trim(1, 1, Message.user("[Context summary: …]"))
    writer.rewrite([HELLO[0], Message.user("My number is […]")])
    transcript.follow(writer.operations)
    assert [message.text for message in transcript.messages] == [
        "Hi",
        "Be brief.",
        "My number is […]",
    ]


def test_the_transcript_goes_on_over_links() -> None:
    transcript = Transcript(HELLO)
    transcript.follow([Append(messages=[Message.assistant("Hello")])])
    transcript.begin_link([*HELLO, Message.assistant("Hello"), Message.user("not recorded")])
    transcript.follow(
        [
            Trim(head=1, drop=3, summary=Message.user("[…]")),
            Append(messages=[Message.assistant("Bye")]),
        ]
    )
    assert [message.text for message in transcript.messages] == [
        "Be brief.",
        "Hi",
        "Hello",
        "not recorded",
        "Bye",
    ]
