"""The conversation as people read it: with the messages that trimming has dropped."""

from __future__ import annotations

from perdure.conversation import Append, Conversation, Trim
from perdure.history.transcript import Transcript
from perdure.messages import Message

HELLO = [Message.system("Be brief."), Message.user("Hi")]


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
