"""§7.1: neutral messages and options to a Chat Completions request."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.json_types import JsonObject
from perdure.messages import Message, ToolCall, ToolResult
from perdure.providers import to_request

from ..support.wire_agents import agent, answering, message

PNG = "data:image/png;base64,iVBORw0="


def wire(*messages: JsonObject) -> Any:
    return to_request(agent(), messages)["messages"]


@pytest.mark.parametrize(
    ("given", "content"),
    [
        pytest.param("Hi", "Hi", id="one text is a plain string"),
        pytest.param([], "", id="nothing is an empty string"),
        pytest.param(
            [{"kind": "text", "value": "a"}, {"kind": "text", "value": "b"}],
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            id="two texts are parts",
        ),
        pytest.param(
            [{"kind": "image", "source": "https://x/y.png", "detail": "low"}],
            [{"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}}],
            id="image with detail",
        ),
        pytest.param(
            [{"kind": "image", "source": PNG}],
            [{"type": "image_url", "image_url": {"url": PNG}}],
            id="a data URI is unchanged, no empty detail",
        ),
        pytest.param(
            [{"kind": "image", "source": "iVBORw0=", "mediaType": "image/png"}],
            [{"type": "image_url", "image_url": {"url": PNG}}],
            id="bare base64 becomes a data URI",
        ),
        pytest.param(
            [{"kind": "file", "source": "JVBERi0xLjQ=", "filename": "y.pdf"}],
            [
                {
                    "type": "file",
                    "file": {
                        "filename": "y.pdf",
                        "file_data": "data:application/pdf;base64,JVBERi0xLjQ=",
                    },
                }
            ],
            id="a PDF goes with its name and its content",
        ),
        pytest.param(
            [{"kind": "file", "source": "data:text/csv;base64,YTti"}],
            [
                {
                    "type": "file",
                    "file": {"filename": "file.csv", "file_data": "data:text/csv;base64,YTti"},
                }
            ],
            id="a file without a name gets one",
        ),
    ],
)
def test_content(given: Any, content: Any) -> None:
    assert wire(message("user", given)) == [{"role": "user", "content": content}]


def test_metadata_is_merged_but_for_what_is_internal() -> None:
    kept = {"api": "anthropic", "content": []}
    [sent] = wire(
        message("user", "Hi", name="Alice", provider_content=kept, status="error", role="x")
    )
    assert sent == {"role": "user", "name": "Alice", "content": "Hi"}


def test_all_texts_of_a_tool_result_are_one_string() -> None:
    texts = [{"kind": "text", "value": "a"}, {"kind": "text", "value": "b"}]
    assert wire(answering("c", texts))[0]["content"] == "ab"
    mixed = [*texts, {"kind": "image", "source": PNG}]
    told, shown = wire(answering("c", mixed))
    assert told["content"].startswith("a\nb\n")
    assert [part["type"] for part in shown["content"]] == ["text", "image_url"]
    assert (told["role"], shown["role"]) == ("tool", "user")


@pytest.mark.parametrize(
    "result",
    [
        ToolResult.of_text("72"),
        ToolResult.denial("no"),
        ToolResult.failure("no", kind="timeout", status="timeout", outcome_unknown=True),
        ToolResult.cancellation(outcome_unknown=True),
        ToolResult.of_text("72").model_copy(update={"size": 9, "duration_ms": 3.0}),
    ],
    ids=lambda result: str(result.error_kind or result.size),
)
def test_what_a_run_remembers_of_a_call_is_no_field_of_the_request(result: ToolResult) -> None:
    """Strict servers refuse the whole conversation for a field that they do not know."""
    remembered = {"outcome_unknown": {"same": "s", "key": "k"}, "settled_outcomes": ["k"]}
    asked = Message.assistant("", [ToolCall(id="c1", name="look", arguments="{}")])
    for answer in (
        Message.tool(asked.tool_calls[0], result),
        Message.tool(asked.tool_calls[0], result, remembered),
    ):
        told = to_request(agent(), [asked.model_dump(), answer.model_dump()])["messages"][1]
        assert told == {"role": "tool", "tool_call_id": "c1", "content": result.text}
