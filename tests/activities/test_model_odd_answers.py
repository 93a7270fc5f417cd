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
from pydantic import ValidationError

from perdure.activities.heartbeat import Heartbeat
from perdure.activities.model import ask_model
from perdure.errors import ModelError
from perdure.messages import Message, ModelReply
from perdure.options import RunOptions
from perdure.providers import close_clients
from perdure.providers.wire_format import count

from ..support.recorded_server import Recorded, RecordedServer, recorded_server
from ..support.stage import Stage
from ..support.wild_provider import APIS, answer, asking, events, stream


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
