"""What of a conversation goes along with a task for another agent."""

from __future__ import annotations

from perdure.loop.tool_round import MAX_BYTES, recent_messages
from perdure.messages import ImagePart, Message, TextPart, ToolCall, ToolResult

CALL = ToolCall(id="1", name="look", arguments='{"where": "sea"}')
SAID = [
    Message.system("Be brief."),
    Message.user("What floats?"),
    Message.assistant("I look.", [CALL]),
    Message.tool(CALL, ToolResult.of_text("Wood.")),
    Message(role="developer", parts=[TextPart(value="Go on.")]),
    Message(
        role="user",
        parts=[TextPart(value="And this?"), ImagePart(source="https://x.example/a.png")],
    ),
]


def test_instructions_stay_here_and_the_rest_is_text() -> None:
    assert [(each.role, each.text) for each in recent_messages(SAID, 6)] == [
        ("user", "What floats?"),
        ("assistant", 'I look.\n{"tool": "look", "arguments": {"where": "sea"}}'),
        ("user", "Tool result:\nWood."),
        ("user", "And this?\n[image]"),
    ]
    assert [each.text for each in recent_messages(SAID, 1)] == ["And this?\n[image]"]
    assert recent_messages(SAID, 0) == []


def test_calls_go_along_as_actions() -> None:
    handed = ToolCall(id="1", name="delegate_to_clerk", arguments='{"task": "Count."}')
    assert (
        recent_messages([Message.assistant("", [handed])], 1)[0].text
        == '{"agent": "clerk", "task": "Count."}'
    )
    broken = Message.assistant("", [ToolCall(id="1", name="look", arguments="[1]")])
    assert recent_messages([broken], 1)[0].text == '{"tool": "look", "arguments": "[1]"}'


def test_it_is_bounded() -> None:
    many = recent_messages([Message.user("ä" * 100_000)] * 100, 100)
    assert 2 < len(many) < 10
    assert sum(len(each.text.encode()) for each in many) <= MAX_BYTES
