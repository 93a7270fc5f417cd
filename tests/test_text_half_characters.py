"""Half of a surrogate pair: joined with its other half, or replaced, and never the end of a run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.providers import close_clients, format_tool_messages, process_response
from perdure.text import bounded_text, valid_json, valid_text

from .support.recorded_server import Recorded, RecordedServer, recorded_server
from .support.stage import Stage
from .support.wild_provider import APIS, answer, asking, events, stream

HIGH, LOW, GONE = "\ud83d", "\ude00", "\ufffd"


@pytest.fixture
async def wild() -> AsyncIterator[RecordedServer]:
    async with recorded_server() as server:
        yield server
        await close_clients()


@pytest.mark.parametrize("api", APIS)
async def test_an_emoji_cut_in_mid_stream_costs_one_call(
    stage: Stage, wild: RecordedServer, api: str
) -> None:
    pieces = ["so ", HIGH, f"{LOW} and {HIGH}", LOW, "", f" {LOW}{HIGH}"]
    wild.answers(stream(events(api, pieces, thinking=["I ", HIGH, LOW]), piece=7))
    async with stage.worker():
        run = await stage.start(asking(wild, api), stream=True)
        seen = [event async for event in run.stream() if event.type in ("token", "thinking")]
        result = await run.result()
    assert result.output == f"so 😀 and 😀 {GONE}{GONE}"
    assert len(wild.received) == 1
    assert all(event.data == valid_json(event.data) for event in seen)


@pytest.mark.parametrize("api", APIS)
async def test_half_a_character_in_a_whole_answer(
    stage: Stage, wild: RecordedServer, api: str
) -> None:
    body = json.dumps(answer(api, f"a {HIGH}{LOW} b {HIGH} c {LOW}")).encode()
    wild.answers(Recorded(body.replace(b"c ", b"c \xed\xa0\xbd")))
    async with stage.worker():
        run = await stage.start(asking(wild, api), raw=True)
        result = await run.result()
    assert result.messages[-1].text == f"a 😀 b {GONE} c 😀"
    assert len(wild.received) == 1


def asked(arguments: list[str]) -> list[JsonObject]:
    """A stream that asks for `look`, whose arguments come in these pieces, after a refusal to
    think.
    """
    opened = {"index": 0, "id": f"c{HIGH}", "function": {"name": "look", "arguments": ""}}
    pieces = [opened, *({"index": 0, "function": {"arguments": piece}} for piece in arguments)]
    deltas = [{"choices": [{"delta": {"tool_calls": [piece]}}]} for piece in pieces]
    return [*deltas, {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}]


def test_pure_functions() -> None:
    agent = scripted_agent_of("chat")
    response = answer("chat", f"a{HIGH}{LOW}{LOW}")
    assert process_response(agent, response) == f"a😀{GONE}"
    assert format_tool_messages(agent, response, [], [])[0].text == f"a😀{GONE}"


def scripted_agent_of(api: str) -> Any:
    return asking(RecordedServer(), api)


def test_valid_and_bounded() -> None:
    assert valid_text(f"{LOW}{HIGH}x{HIGH}{LOW}") == f"{GONE}{GONE}x😀"
    assert valid_json({f"k{LOW}": [HIGH, 1, None, (LOW,)]}) == {f"k{GONE}": [GONE, 1, None, [GONE]]}
    assert bounded_text("é" * 10, 20) == "é" * 10
    long = bounded_text(f"head {'😀' * 5000}")
    assert len(long.encode()) <= 8192
    assert long.startswith("head ")
    assert long.endswith("[… cut: 20,005 bytes]")
    assert Message.user(valid_text(HIGH)).text == GONE
