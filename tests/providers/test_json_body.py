"""Requests as JSON bytes, whatever was encoded before."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.providers.json_body import LONG, BodyEncoder
from perdure.providers.memo import Memoized

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@given(st.lists(st.tuples(st.lists(JSON, max_size=20), st.text()), min_size=1, max_size=4))
@settings(max_examples=50, deadline=None)
def test_the_bytes_always_say_the_body(conversations: list[tuple[list[Any], str]]) -> None:
    encoder = BodyEncoder(remembered_bytes=2000)
    grown: list[Any] = []
    for items, model in conversations:
        grown = [*grown, *items]
        for body in ({"model": model, "messages": grown}, {"input": items, "model": model}, {}):
            assert json.loads(encoder.encode(body)) == body


def conversation(length: int = 3 * LONG) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": f"message {n}"}]} for n in range(length)]


def test_a_message_that_was_changed_in_place_is_encoded_anew() -> None:
    encoder, messages = BodyEncoder(), conversation()
    encoder.encode({"messages": messages})
    messages[LONG]["content"][0]["text"] = "changed"
    messages[0]["content"].append({"type": "text", "text": "added"})
    assert json.loads(encoder.encode({"messages": messages})) == {"messages": messages}


@pytest.mark.parametrize("start", [0, 1, LONG, 3 * LONG - 1])
def test_a_trimmed_or_rewritten_conversation(start: int) -> None:
    encoder, messages = BodyEncoder(), conversation()
    encoder.encode({"messages": messages})
    for changed in (messages[:start] + conversation(LONG), messages[start:], messages[: start + 1]):
        assert json.loads(encoder.encode({"messages": changed})) == {"messages": changed}


@pytest.mark.parametrize("start", [0, 1, LONG, 3 * LONG - 1])
def test_lasting_messages(start: int) -> None:
    encoder, messages = BodyEncoder(), conversation()
    encoder.encode({"messages": messages})
    encoder.encode({"messages": Memoized(messages)})
    other = {"role": "user", "content": 1}
    equal = {"role": "user", "content": True}
    for changed in (messages[:start] + [other] * LONG, messages[:start] + [equal] * LONG, messages[start:]):
        assert json.loads(encoder.encode({"messages": Memoized(changed)})) == {"messages": changed}
        assert b"1" in encoder.encode({"messages": [*changed, other]})
    text = encoder.encode({"messages": Memoized(messages[:start] + [equal] * LONG)})
    assert text.endswith(b'{"role":"user","content":true}]}')
    text = encoder.encode({"messages": messages[:start] + [other] * LONG})
    assert text.endswith(b'{"role":"user","content":1}]}')


def test_values_that_json_cannot_say() -> None:
    encoder = BodyEncoder()
    assert encoder.encode({"a": "\ud800"}) == b'{"a":"?"}'
    assert encoder.encode({"a": float("nan")}) == b'{"a":null}'
    with pytest.raises((TypeError, ValueError)):
        encoder.encode({"a": object()})


@pytest.mark.parametrize(("before", "after"), [(1, True), (True, 1), (1, 1.0), (0.0, -0.0), (0, False)])
def test_what_python_takes_for_equal_is_not_mixed_up(before: Any, after: Any) -> None:
    encoder, messages = BodyEncoder(), conversation()
    messages[LONG]["input"] = {"n": [before]}
    encoder.encode({"messages": messages})
    messages[LONG] = messages[LONG] | {"input": {"n": [after]}}
    assert json.dumps({"messages": messages}, separators=(",", ":")).encode() == encoder.encode({"messages": messages})
