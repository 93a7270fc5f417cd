"""§6: parsing."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.agents import Agent
from perdure.errors import InvokerError, RenderError
from perdure.json_types import JsonObject
from perdure.messages import Message, TextPart
from perdure.prompty.load import load_dict
from perdure.prompty.parse import parse


def essence(messages: list[Message]) -> list[tuple[str, list[str], JsonObject]]:
    return [
        (
            it.role,
            [part.value if isinstance(part, TextPart) else f"<{part.source}>" for part in it.parts],
            it.metadata,
        )
        for it in messages
    ]


@pytest.mark.parametrize(
    ("text", "role", "metadata"),
    [
        pytest.param("system:\nx", "system", {}, id="system"),
        pytest.param("user:\nx", "user", {}, id="user"),
        pytest.param("assistant:\nx", "assistant", {}, id="assistant"),
        pytest.param("developer:\nx", "developer", {}, id="§18-12 developer"),
        pytest.param("USER:\nx", "user", {}, id="any case"),
        pytest.param("# user:\nx", "user", {}, id="a heading"),
        pytest.param(" \t #\tuser \t:\t \nx", "user", {}, id="blanks"),
        pytest.param(
            'user[name="Alice", id=7]:\nx', "user", {"name": "Alice", "id": 7}, id="attributes"
        ),
        pytest.param(
            "user[a=true, b=False, c=1.5, d=-2, e=x, f=]:\nx",
            "user",
            {"a": True, "b": False, "c": 1.5, "d": -2, "e": "x", "f": ""},
            id="coercion",
        ),
        pytest.param(
            'user[a="7", b="true"]:\nx', "user", {"a": "7", "b": "true"}, id="quoted is a text"
        ),
        pytest.param('user[a="b]c,d=e"]:\nx', "user", {"a": "b]c,d=e"}, id="anything in quotes"),
        pytest.param("user[a=Alice Smith]:\nx", "user", {"a": "Alice Smith"}, id="blanks unquoted"),
        pytest.param(
            'user[ a = 1 , b="x" c=3,]:\nx', "user", {"a": 1, "b": "x", "c": 3}, id="loose commas"
        ),
        pytest.param("user[a=1 b=2]:\nx", "user", {"a": 1, "b": 2}, id="no comma"),
        pytest.param(
            'user[nonce="123", a=1]:\nx', "user", {"a": 1}, id="a nonce is no metadata (§6.3)"
        ),
        pytest.param(
            f"user[a={'1' * 30}]:\nx", "user", {"a": "1" * 30}, id="a very long number stays a text"
        ),
    ],
)
def test_markers(text: str, role: str, metadata: JsonObject) -> None:
    assert essence(parse(Agent(), text)) == [(role, ["x"], metadata)]


def test_unknown_parser() -> None:
    """§11."""
    with pytest.raises(InvokerError) as caught:
        parse(load_dict({"template": {"parser": "own"}}), "x")
    assert str(caught.value) == "No parser registered for key: own"


THREAD = [
    {"role": "user", "content": "q", "name": "Bob"},
    {
        "role": "assistant",
        "parts": [{"kind": "text", "value": "a"}],
        "metadata": {"m": 1},
        "tool_calls": [],
    },
    Message(role="tool", parts=[TextPart(value="r")], metadata={"tool_call_id": "c"}),
]
THREAD_ESSENCE = [
    ("user", ["q"], {"name": "Bob"}),
    ("assistant", ["a"], {"m": 1, "tool_calls": []}),
    ("tool", ["r"], {"tool_call_id": "c"}),
]
T = "__PROMPTY_THREAD_0011aabb_t__"
U = "__PROMPTY_THREAD_ff_u__"
I = "__PROMPTY_THREAD_0011aabb_i__"  # noqa: E741


@pytest.fixture
def agent() -> Agent:
    kinds = {"t": "thread", "u": "thread", "i": "image", "a": "audio", "f": "file"}
    return load_dict({"inputs": {name: {"kind": kind} for name, kind in kinds.items()}})


@pytest.mark.parametrize(
    ("text", "rich", "expected"),
    [
        pytest.param(
            f"user[n=1]:\nbefore \n{T}\n after",
            {T: THREAD},
            [("user", ["before"], {"n": 1}), *THREAD_ESSENCE, ("user", ["after"], {"n": 1})],
            id="in the middle",
        ),
        pytest.param(
            f"system:\nS\n\n{T}\n\nuser:\nQ",
            {T: THREAD},
            [("system", ["S"], {}), *THREAD_ESSENCE, ("user", ["Q"], {})],
            id="at the end of a message",
        ),
        pytest.param(f"user:\n{T}\n", {T: THREAD}, THREAD_ESSENCE, id="alone"),
        pytest.param(
            f"user:\na{T}b{U}c{T}",
            {T: THREAD[:1], U: THREAD[:1]},
            [
                ("user", [x], {}) if x != "q" else THREAD_ESSENCE[0]
                for x in ("a", "q", "b", "q", "c", "q")
            ],
            id="several",
        ),
        pytest.param(f"user:\na {T}", {T: []}, [("user", ["a"], {})], id="an empty thread"),
        pytest.param(
            f"user:\n{T}", {T: {"messages": THREAD[:1]}}, THREAD_ESSENCE[:1], id="in a map"
        ),
        pytest.param(
            f"user:\na {T}",
            {T: "text"},
            [("user", [f"a {T}"], {})],
            id="no message list: stays literal",
        ),
        pytest.param(
            f"user:\na {T}", {T: ["text"]}, [("user", [f"a {T}"], {})], id="a list of no messages"
        ),
        pytest.param(f"user:\n{T}", {}, [("user", [T], {})], id="no value"),
        pytest.param(
            f"user:\n{T}", {T: [{"role": "user"}]}, [("user", [], {})], id="a message of nothing"
        ),
        pytest.param(
            f"user:\nsee {I} here",
            {I: "u"},
            [("user", ["see ", "<u>", " here"], {})],
            id="§18-22 an image in place",
        ),
        pytest.param(
            f"user:\nsee\n\n{I}\n\n{I}\nhere",
            {I: "u"},
            [("user", ["see", "<u>", "<u>", "here"], {})],
            id="line breaks around images",
        ),
        pytest.param(
            f"system[n=1]:\n{I}",
            {I: ["u", "v"]},
            [("system", ["<u>", "<v>"], {"n": 1})],
            id="a list of images, any role",
        ),
        pytest.param(f"user:\n{I}", {I: []}, [("user", [""], {})], id="no images"),
        pytest.param(
            f"user:\na {I} {T} b",
            {I: "u", T: THREAD[:1]},
            [("user", ["a", "<u>"], {}), THREAD_ESSENCE[0], ("user", ["b"], {})],
            id="an image before a thread",
        ),
    ],
)
def test_rich_values(agent: Agent, text: str, rich: JsonObject, expected: list[Any]) -> None:
    assert essence(parse(agent, text, rich=rich)) == expected


@pytest.mark.parametrize("kind", ["image", "audio", "file"])
@pytest.mark.parametrize(
    ("value", "source", "media_type"),
    [
        ("https://x/y", "https://x/y", None),
        ("data:image/png;base64,AA==", "data:image/png;base64,AA==", None),
        ({"source": "AA==", "mediaType": "image/png"}, "AA==", "image/png"),
        ({"value": "AA=="}, "AA==", None),
        ({"url": "https://x/y"}, "https://x/y", None),
    ],
)
def test_media(agent: Agent, kind: str, value: Any, source: str, media_type: str | None) -> None:
    nonce = f"__PROMPTY_THREAD_00_{kind[0]}__"
    (message,) = parse(agent, f"user:\n{nonce}", rich={nonce: value})
    (part,) = message.parts
    assert not isinstance(part, TextPart)
    assert (part.kind, part.source, part.media_type) == (kind, source, media_type)


@pytest.mark.parametrize(
    ("rich", "text"),
    [
        ({T: [{"role": "nobody", "content": "x"}]}, "input 't': message 0: role: Input should be"),
        ({T: [{"role": "user", "content": [{"kind": "noise"}]}]}, "input 't': message 0: parts.0"),
        ({I: 5}, "input 'i': expected image data as a string or a map with `source`"),
        ({I: {"mediaType": "image/png"}}, "input 'i': expected image data"),
    ],
)
def test_wrong_rich_values(agent: Agent, rich: JsonObject, text: str) -> None:
    with pytest.raises(RenderError) as caught:
        parse(agent, f"user:\n{T}{I}", rich=rich)
    assert text in str(caught.value)
