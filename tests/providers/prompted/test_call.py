"""What a model is sent that is told of its tools in the prompt."""

from __future__ import annotations

from typing import Any, Literal

from perdure.agents import Agent
from perdure.json_types import JsonObject
from perdure.messages import ImagePart, Message, ModelReply, TextPart, ToolCall, ToolResult
from perdure.providers.prompted.call import (
    AGENT_INSTRUCTIONS,
    NO_ACTION_INSTRUCTIONS,
    TOOLS_INSTRUCTIONS,
    PromptedCall,
)
from perdure.testing.script import call

TASK = [{"name": "task", "kind": "string", "required": True}]
CALCULATOR = {
    "name": "calculator",
    "kind": "function",
    "description": "Calculates",
    "parameters": [{"name": "expression", "kind": "string", "required": True}],
}
RESEARCHER = {
    "name": "delegate_to_researcher",
    "kind": "function",
    "description": "Finds out",
    "parameters": TASK,
}
SECTION = """
## Available Tools
- **calculator**: Calculates
  Parameters: {
  "type": "object",
  "properties": {
    "expression": {
      "type": "string"
    }
  },
  "required": [
    "expression"
  ]
}"""
AGENTS = "\n## Available Agents for Delegation\n- **researcher**: Finds out"


def prompted(
    *tools: JsonObject, phase: Literal["act", "answer"] = "act", step: int = 1, **agent: Any
) -> PromptedCall:
    declared = Agent.model_validate({"name": "prompted", "tools": list(tools), **agent})
    return PromptedCall(declared, phase, step=step, max_steps=5, ids="run-1")


def sent(call: PromptedCall, *messages: Message) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in call.messages(messages)]


def round_of(
    calls: list[ToolCall], *results: ToolResult, text: str = "", **metadata: Any
) -> list[Message]:
    """An assistant's message with calls, and their results."""
    asked = Message.assistant(text, calls)
    asked.metadata |= metadata
    return [
        asked,
        *(Message.tool(each, result) for each, result in zip(calls, results, strict=True)),
    ]


def test_the_instructions_are_the_pages() -> None:
    system = (
        "system",
        "\n".join(
            [
                "Be brief.",
                SECTION,
                TOOLS_INSTRUCTIONS,
                AGENTS,
                AGENT_INSTRUCTIONS,
                NO_ACTION_INSTRUCTIONS,
            ]
        ),
    )
    messages = [Message.system("Be brief."), Message.user("Hi"), Message.system("And kind.")]
    assert sent(prompted(CALCULATOR, RESEARCHER), *messages) == [
        system,
        ("user", "Hi"),
        ("system", "And kind."),
    ]
    assert sent(prompted(CALCULATOR, RESEARCHER, phase="answer"), *messages)[0] == system


def test_the_parts_that_are_not_needed_are_left_out() -> None:
    assert sent(prompted(CALCULATOR), Message.user("Hi")) == [
        ("system", "\n".join([SECTION.lstrip("\n"), TOOLS_INSTRUCTIONS, NO_ACTION_INSTRUCTIONS])),
        ("user", "Hi"),
    ]
    [(_, text), _] = sent(prompted(RESEARCHER), Message.user("Hi"))
    assert text == "\n".join([AGENTS.lstrip("\n"), AGENT_INSTRUCTIONS, NO_ACTION_INSTRUCTIONS])
    assert sent(prompted(), Message.system("Be brief."), Message.user("Hi"))[0] == (
        "system",
        "Be brief.",
    )


def test_results_are_the_users() -> None:
    failed = ToolResult.failure("Error: Tool 'calculator' failed: no", kind="error")
    delegate = call("delegate_to_researcher", "d", task="it")
    told = ToolResult.failure("[Delegation failed: gone]", kind="error")
    unknown = ToolResult.failure("Error: Tool not registered: delegate_to_x.", kind="unknown_tool")
    conversation = [
        *round_of([call("calculator", "a", expression="2+2")], ToolResult.of_text("4")),
        *round_of([call("calculator", "b", expression="x")], failed),
        *round_of([delegate], ToolResult.of_text("Qubits.")),
        *round_of([delegate], told),
        *round_of([call("delegate_to_x", "e", task="it")], unknown),
        *round_of([call("calculator", "f")], ToolResult.of_text('a "text"')),
    ]
    assert [
        text
        for role, text in sent(prompted(CALCULATOR, RESEARCHER), *conversation)
        if role == "user"
    ] == [
        "[Step 1/5] Tool result: 4",
        "[Step 2/5] Tool execution failed: Error: Tool 'calculator' failed: no",
        "[Step 3/5] Agent response: Qubits.",
        "[Step 4/5] Agent response: [Delegation failed: gone]",
        "[Step 5/5] Delegation failed: Error: Tool not registered: delegate_to_x.",
        '[Step 5/5] Tool result: "a \\"text\\""',
    ]


def test_calls_are_the_models_own_text() -> None:
    written = 'I add: {"tool": "calculator",\n "arguments": {}}'
    raw = {"api": "perdure.json", "content": [written], "step": 4}
    conversation = [
        *round_of(
            [call("calculator", "a")], ToolResult.of_text("4"), text="I add:", provider_content=raw
        ),
        *round_of(
            [
                call("calculator", "b", expression="é"),
                call("delegate_to_researcher", "c", task="it"),
            ],
            ToolResult.of_text('{"sum": 4}'),
            ToolResult.of_text("Yes"),
            text="Both.",
        ),
    ]
    assert sent(prompted(CALCULATOR), *conversation)[1:] == [
        ("assistant", written),
        ("user", "[Step 4/5] Tool result: 4"),
        (
            "assistant",
            'Both.\n{"tool": "calculator", "arguments": {"expression": "é"}}\n{"agent": '
            '"researcher", "task": "it"}',
        ),
        (
            "user",
            '[Step 5/5] calculator: Tool result: {"sum": 4}\n[Step 5/5] researcher: Agent '
            "response: Yes",
        ),
    ]


def test_pictures_in_results_stay() -> None:
    image = ImagePart(source="https://example.org/a.png")
    result = ToolResult(parts=[TextPart(value="seen"), image])
    [_, message] = prompted().messages(round_of([call("look", "a")], result))
    assert [part.kind for part in message.parts] == ["text", "image"]


def test_a_reply_is_read_with_what_the_model_wrote_beside_it() -> None:
    text = 'I add.\n{"tool": "calculator", "arguments": {"expression": "2+2"}}'
    message = prompted(CALCULATOR, step=3).read(ModelReply(message=Message.assistant(text))).message
    assert message.text == "I add."
    assert [(each.id, each.name, each.arguments) for each in message.tool_calls] == [
        ("run-1-0", "calculator", '{"expression":"2+2"}')
    ]
    assert message.metadata["provider_content"] == {
        "api": "perdure.json",
        "content": [text],
        "step": 3,
    }


def test_native_calls_of_a_model_that_was_offered_none_count_too() -> None:
    reply = ModelReply(message=Message.assistant("", [call("calculator")]))
    assert prompted(CALCULATOR).read(reply) is reply
