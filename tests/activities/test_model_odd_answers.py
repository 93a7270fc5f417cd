"""Whatever a provider answers, and whatever durations a caller asks for: a reply or a typed error,
never a bug.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import from_json

from perdure.activities.heartbeat import Heartbeat
from perdure.activities.model import ask_model
from perdure.errors import ModelError
from perdure.messages import Message, ModelReply
from perdure.options import MAX_SECONDS, RunOptions
from perdure.providers import close_clients
from perdure.providers.wire_format import count

from ..support.recorded_server import Recorded, RecordedServer, recorded_server
from ..support.stage import Stage
from ..support.wild_provider import APIS, answer, asking, events, stream

DEEP = json.loads("[" * 210 + "]" * 210)
ODD = st.sampled_from(
    [
        None,
        True,
        3,
        -7,
        1.5,
        10**30,
        1e308,
        math.nan,
        math.inf,
        "",
        "text",
        "\ud83d",
        "x\ude00",
        [],
        [None],
        {},
    ]
    + [{"\ud83d": "\ude00"}, [{"type": "text"}], {"type": "tool_use", "name": 5}, DEEP]
)
TOOL_CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}


@pytest.fixture
async def wild() -> AsyncIterator[RecordedServer]:
    async with recorded_server() as server:
        yield server
        await close_clients()


@pytest.fixture(scope="module")
def ask() -> Iterator[Callable[[Recorded, str, bool], ModelReply]]:
    """Asks a model that gives this answer, as an activity does, in an event loop that outlives the
    examples.
    """
    with asyncio.Runner() as runner:
        context = recorded_server()
        server: RecordedServer = runner.run(_entered(context))

        async def asked(sent: Recorded, api: str, streams: bool) -> ModelReply:
            server.answers(sent)
            heart = Heartbeat()
            heart.speak(1, 1)
            agent = asking(server, api, outputs=[{"name": "a"}])
            options = RunOptions(stream=streams, raw=True, llm_timeout=5)
            return await ask_model(agent, [Message.user("?")], options, heart)

        yield lambda *arguments: runner.run(asked(*arguments))
        runner.run(close_clients())
        runner.run(_left(context))


async def _entered(context: Any) -> Any:
    return await context.__aenter__()


async def _left(context: Any) -> None:
    await context.__aexit__(None, None, None)


def places(value: Any) -> list[list[Any]]:
    """The paths to everything in a JSON value."""
    inner = list(
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else []
    )
    return [[]] + [[key, *rest] for key, item in inner for rest in places(item)]


def replaced(value: Any, path: list[Any], odd: Any) -> Any:
    if not path:
        return odd
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], odd)
    return copy


@st.composite
def damaged(draw: st.DrawFn, value: Any) -> Any:
    for _ in range(draw(st.integers(1, 3))):
        value = replaced(value, draw(st.sampled_from(places(value)[1:] or [[]])), draw(ODD))
    return value


def whole(api: str) -> dict[str, Any]:
    """An answer with everything that a format has."""
    usage = {
        "prompt_tokens": 1,
        "input_tokens": 1,
        "output_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 1},
    }
    said = answer(api, '{"a": "text"}') | {"usage": usage, "model": "m", "id": "i"}
    match api:
        case "chat":
            said["choices"][0]["message"]["tool_calls"] = [TOOL_CALL]
        case "responses":
            call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
            said["output"] += [{"type": "reasoning", "summary": [{"text": "hm"}]}, call]
        case "anthropic":
            said["content"] += [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "t", "name": "look", "input": {"a": 1}},
            ]
    return said


def streamed(api: str) -> list[dict[str, Any]]:
    sent = events(api, ["so ", "it is"], thinking=["hm"])
    if api == "chat":
        call = {
            "choices": [{"delta": {"tool_calls": [{"index": 0, **TOOL_CALL}]}}],
            "usage": {"prompt_tokens": 1},
        }
        sent.insert(1, call)
    return sent


def attack(data: st.DataObject, ask: Callable[[Recorded, str, bool], ModelReply]) -> None:
    api = data.draw(st.sampled_from(sorted(APIS)))
    streams = data.draw(st.booleans())
    if streams:
        sent = streamed(api)
        number = data.draw(st.integers(0, len(sent) - 1))
        body = stream([*sent[:number], data.draw(damaged(sent[number])), *sent[number + 1 :]])
    else:
        body = Recorded.of_json(data.draw(damaged(whole(api))))
    try:
        reply = ask(body, api, streams)
    except ModelError:
        return
    recorded = reply.model_dump_json()
    ModelReply.model_validate_json(recorded)
    from_json(f"{'[' * 60}{recorded}{']' * 60}")
    assert min(reply.usage.model_dump().values()) >= 0


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_any_answer(ask: Callable[[Recorded, str, bool], ModelReply], data: st.DataObject) -> None:
    attack(data, ask)


@pytest.mark.parametrize("api", APIS)
def test_deltas_whose_text_is_none(
    ask: Callable[[Recorded, str, bool], ModelReply], api: str
) -> None:
    with pytest.raises(ModelError, match="Unexpected response format") as caught:
        ask(stream(events(api, ["a", {"text": 5}], thinking=[])), api, True)
    assert caught.value.kind == "invalid_response"


async def test_an_odd_usage_costs_no_answer(stage: Stage, wild: RecordedServer) -> None:
    usage = {
        "prompt_tokens": -5,
        "completion_tokens": 2.0,
        "total_tokens": 1e300,
        "prompt_tokens_details": [1],
    }
    wild.answers(Recorded.of_json(answer("chat", "fine") | {"usage": usage}))
    async with stage.worker():
        run = await stage.start(asking(wild))
        result = await run.result()
    assert (result.output, result.usage.output_tokens, result.usage.total_tokens) == ("fine", 2, 2)


@pytest.mark.parametrize("usage", [None, True, "7", math.nan, math.inf, -1, [], {"n": {}}, 10**13])
def test_what_is_no_count(usage: Any) -> None:
    assert count({"n": usage}, "n") == 0
    assert count(usage, "n") == 0


CUT = json.dumps(answer("chat", "cut off")).encode()[:-9]
NOT_JSON = {
    "html": Recorded(b"<html><h1>Bad gateway</h1></html>", content_type="text/html"),
    "cut": Recorded(CUT),
    "empty": Recorded(b""),
}


async def test_what_is_not_json_is_tried_again(stage: Stage, wild: RecordedServer) -> None:
    async with stage.worker():
        for number, (sent, streams) in enumerate((("html", False), ("cut", True), ("empty", True))):
            wild.answers(NOT_JSON[sent], Recorded.of_json(answer("chat", "at last")))
            result = await (await stage.start(asking(wild), stream=streams)).result()
            assert result.output == "at last"
            assert len(wild.received) == 2 * (number + 1)


DURATIONS = [
    "tool_timeout",
    "llm_timeout",
    "retry_base_seconds",
    "rate_limit_seconds",
    "cancel_grace",
    "max_seconds",
]


@pytest.mark.parametrize("name", DURATIONS)
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, -1.0, 1e12, "soon"])
def test_durations_that_are_none(name: str, value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        RunOptions.model_validate({name: value})
    assert name in str(caught.value)


@pytest.mark.parametrize("value", [0, 1 << 50, math.inf, "x"])
def test_sizes_that_are_none(value: Any) -> None:
    with pytest.raises(ValidationError, match="max_answer_bytes"):
        RunOptions(max_answer_bytes=value)


async def test_the_longest_durations(stage: Stage, wild: RecordedServer) -> None:
    wild.answers(Recorded.of_json(answer("chat", "fine")))
    async with stage.worker():
        longest = dict.fromkeys(DURATIONS, float(MAX_SECONDS)) | {"max_seconds": MAX_SECONDS}
        assert (await (await stage.start(asking(wild), **longest)).result()).output == "fine"
