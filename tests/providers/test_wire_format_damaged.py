"""Recorded answers with random damage: each is a reply or a documented error."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.errors import ModelError
from perdure.providers import provider_for
from perdure.providers.wire_format import WireFormat

from ..support.wire_agents import APIS, agent
from .conftest import recording
from .test_sdk_call_streams import events
from .test_wire_format_process import NAMES

JUNK = st.sampled_from(
    [None, True, 3, -1.5, "text", "", [], [None], ["x"], {}, {"type": "text"}, [{"type": "x"}]]
)
KINDS = st.sampled_from(["text", "tools"])


def places(value: Any) -> list[list[Any]]:
    """The paths to everything in a JSON value."""
    pairs = enumerate(value) if isinstance(value, list) else ()
    inside = value.items() if isinstance(value, dict) else pairs
    return [[], *([key, *rest] for key, item in inside for rest in places(item))]


def replaced(value: Any, path: list[Any], junk: Any) -> Any:
    if not path:
        return junk
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], junk)
    return copy


@st.composite
def damaged(draw: st.DrawFn, value: Any) -> Any:
    for _ in range(draw(st.integers(1, 3))):
        value = replaced(value, draw(st.sampled_from(places(value)[1:] or [[]])), draw(JUNK))
    return value


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_responses(data: st.DataObject) -> None:
    api = data.draw(st.sampled_from(APIS))
    response = data.draw(damaged(json.loads(recording(f"{NAMES[api]}_{data.draw(KINDS)}.json"))))
    provider, declaring = provider_for(agent(api)), agent(api, outputs=[{"name": "a"}])
    try:
        provider.process(declaring, response)
        reply = provider.reply(declaring, response)
    except (ValueError, ModelError):
        return
    json.loads(reply.model_dump_json())
    for other in APIS:
        provider_for(agent(other)).to_request(agent(other), [reply.message])


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_streams(data: st.DataObject) -> None:
    api = data.draw(st.sampled_from(APIS))
    sent = list(events(api, data.draw(KINDS)))
    number = data.draw(st.integers(0, len(sent) - 1))
    sent[number] = data.draw(damaged(sent[number]))
    provider = provider_for(agent(api))
    assert isinstance(provider, WireFormat)
    assembler = provider.assembler()
    try:
        for event in sent:
            assembler.add(event)
        provider.reply(agent(api), assembler.response())
    except (LookupError, TypeError, AttributeError, ValueError, ModelError):
        return  # A call turns each of these into a ModelError.
