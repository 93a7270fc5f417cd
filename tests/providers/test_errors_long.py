"""However long a provider's error is: it costs the requests that its kind deserves, and ends the
run with a text.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from perdure.errors import ExecuteError, GuardrailError, RunError
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.providers import close_clients

from ..support.recorded_server import Recorded, RecordedServer, recorded_server
from ..support.stage import Stage
from ..support.wild_provider import answer, asking, stream

LONG = 600_000
BOUND = 8 * 1024 + 400
"""What a provider said takes 8 KiB; the rest is what perdure says of the call."""


@pytest.fixture
async def wild() -> AsyncIterator[RecordedServer]:
    async with recorded_server() as server:
        yield server
        await close_clients()


async def failure(
    stage: Stage, server: RecordedServer, api: str = "chat", **options: Any
) -> RunError:
    async with stage.worker():
        run = await stage.start(asking(server, api), **options)
        with pytest.raises(RunError) as caught:
            await run.result()
    assert len(str(caught.value).encode()) < BOUND
    return caught.value


def refusing(api: str, words: str) -> list[JsonObject]:
    """A stream in which the model refuses with these words."""
    if api == "chat":
        return [
            {"choices": [{"delta": {"refusal": words}}]},
            {"choices": [{"delta": {}, "finish_reason": "stop"}]},
        ]
    return [{"type": "response.refusal.delta", "delta": words}]


ANSWERS = {
    "json": (
        Recorded.of_json({"error": {"message": "m " * (LONG // 2)}}, status=400),
        "bad_request",
    ),
    "html": (Recorded(b"<p>" * (LONG // 3), status=502, content_type="text/html"), "server"),
    "streamed": (stream([{"type": "error", "error": {"message": "x" * LONG}}]), "server"),
    "refusal": (stream(refusing("chat", "no " * (LONG // 3))), "refusal"),
}


@pytest.mark.parametrize("answer", ANSWERS)
async def test_a_long_error_ends_the_run(stage: Stage, wild: RecordedServer, answer: str) -> None:
    sent, kind = ANSWERS[answer]
    wild.answers(sent)
    error = await failure(stage, wild, max_llm_retries=1, stream=answer in ("streamed", "refusal"))
    assert isinstance(error, ExecuteError)
    assert error.reason == kind
    assert re.search(r"… cut: (599|600),\d+ bytes\]", str(error))
    assert len(wild.received) == 1


async def test_a_guardrail_that_fails_with_a_megabyte(stage: Stage, wild: RecordedServer) -> None:
    def judge(messages: list[Message]) -> GuardrailResult:
        raise ValueError("x" * 1_000_000)

    async with stage.worker(guardrails={"long": Guardrails(input=judge)}):
        run = await stage.start(asking(wild), guardrails="long")
        with pytest.raises(GuardrailError) as caught:
            await run.result()
    assert len(str(caught.value)) < BOUND


@pytest.mark.parametrize("unknown_tools", ["raise", "recover"])
async def test_a_tool_name_of_half_a_megabyte(
    stage: Stage, wild: RecordedServer, unknown_tools: str
) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "x" * LONG, "arguments": "{}"}}
    asked = {
        "choices": [
            {"message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}
        ]
    }
    wild.answers(Recorded.of_json(asked), Recorded.of_json(answer("chat", "sorry")))
    async with stage.worker({"look": str}):
        run = await stage.start(asking(wild, tools=["look"]), unknown_tools=unknown_tools)
        if unknown_tools == "recover":
            assert (await run.result()).output == "sorry"
            return
        with pytest.raises(RunError, match="^Tool not registered: xxx") as caught:
            await run.result()
    assert len(str(caught.value)) < BOUND
