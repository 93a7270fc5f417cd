"""Tool calls that another system finishes: `context.later()`, `complete_call`, what is recorded and
shown of them.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import CompletionError, ToolContext
from perdure.activities.call_secrets import call_secret
from perdure.client import RunHandle, complete_call
from perdure.errors import ConfigurationError, RunCancelled, UnknownCallError
from perdure.json_types import JsonObject
from perdure.protocol.later import CompletionToken, read_token
from perdure.testing import InProcessRun, asks, call, says

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.stage import Stage
from ..support.waiting import wait_for

ORDER: JsonObject = {"name": "order", "kind": "function", "parameters": []}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_CALL_KEY", "a key for tests, of 32 characters")


class Order:
    """A tool that hands its calls to another system."""

    def __init__(self, timeout: float | None = None) -> None:
        self.tokens: list[str] = []
        self._timeout = timeout

    async def __call__(self, context: ToolContext) -> str:
        token = context.later(self._timeout)
        self.tokens.append(token)
        return token


async def awaited(run: RunHandle) -> list[str]:
    return await wait_for(lambda: _names(run))


async def _names(run: RunHandle) -> list[str]:
    return [each.call_id for each in (await run.status()).awaited]


def results(run_messages: Any) -> list[str]:
    return tool_texts(run_messages)


async def test_another_system_finishes_a_call_once(stage: Stage, scripted: Scripted) -> None:
    order = Order()
    async with stage.worker({"order": order}):
        run = await stage.start(
            scripted_agent(scripted([asks(call("order", "c1")), says("over")]), [ORDER])
        )
        await awaited(run)
        status = await run.status()
        assert (status.status, status.awaited[0].name, status.awaited[0].deadline) == (
            "running",
            "order",
            None,
        )
        with pytest.raises(UnknownCallError, match="there is none yet"):
            await run.tool_result("c1")
        (token,) = order.tokens
        await complete_call(stage.client, token, {"number": 7}, by="the shop")
        assert (await run.result()).output == "over"
        assert results(await run.messages()) == ['{"number":7}']
        assert (await run.tool_result("c1")).text == '{"number":7}'
        # Of a run that is over, a repetition is known, and another completion is told of the first.
        await complete_call(stage.client, token, {"number": 7}, by="the shop, once more")
        with pytest.raises(
            CompletionError, match="finished by the shop with a result before"
        ) as refused:
            await complete_call(stage.client, token, {"number": 8})
        assert refused.value.kind == "completed"
    history = await stage.client.get_workflow_handle(run.id).fetch_history()
    assert token not in history.to_json()
    assert token.partition(".")[2] not in history.to_json()


async def test_a_second_completion_of_an_open_run_is_told_of_the_first(
    stage: Stage, scripted: Scripted
) -> None:
    order = Order()
    async with stage.worker({"order": order}):
        model = scripted([asks(call("order", "c1"), call("order", "c2")), says("over")])
        run = await stage.start(scripted_agent(model, [ORDER]), parallel_tool_calls=True)
        await wait_for(lambda: _both(run))
        first, second = order.tokens
        await complete_call(stage.client, first, error="sold out")
        await complete_call(stage.client, first, error="sold out")
        with pytest.raises(CompletionError, match="was finished at .* with the error 'sold out'"):
            await complete_call(stage.client, first, "delivered")
        assert len(await awaited(run)) == 1
        await complete_call(stage.client, second, "delivered")
        await run.result()
    assert sorted(results(await run.messages())) == [
        "Error: Tool 'order' failed: sold out",
        "delivered",
    ]


async def _both(run: RunHandle) -> bool:
    return len(await _names(run)) == 2


async def test_who_guesses_learns_nothing(stage: Stage, scripted: Scripted) -> None:
    order = Order()
    async with stage.worker({"order": order}):
        run = await stage.start(
            scripted_agent(scripted([asks(call("order", "c1")), says("over")]), [ORDER])
        )
        await awaited(run)
        (token,) = order.tokens
        for wrong in (
            token[:-1],
            token + "x",
            CompletionToken.of(run.id, "guessed"),
            CompletionToken.of("no-such-run", "x"),
            "nonsense",
        ):
            with pytest.raises(CompletionError) as refused:
                await complete_call(stage.client, wrong, "mine")
            assert refused.value.kind == "unknown"
        await complete_call(stage.client, token, "right")
        await run.result()
        with pytest.raises(CompletionError) as late:
            await complete_call(stage.client, CompletionToken.of(run.id, "guessed"), "mine")
        assert late.value.kind == "unknown"


async def test_a_call_that_nobody_finishes_in_time_fails(stage: Stage, scripted: Scripted) -> None:
    order = Order(timeout=0.2)
    async with stage.worker({"order": order}):
        run = await stage.start(
            scripted_agent(scripted([asks(call("order", "c1")), says("over")]), [ORDER])
        )
        await run.result()
    assert "no system has finished the call within 0.2 seconds" in results(await run.messages())[0]


async def test_a_cancelled_run_waits_no_longer(stage: Stage, scripted: Scripted) -> None:
    order = Order()
    async with stage.worker({"order": order}):
        run = await stage.start(
            scripted_agent(scripted([asks(call("order", "c1")), says("over")]), [ORDER])
        )
        await awaited(run)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()
        assert (await run.status()).awaited == []


async def test_a_completion_may_come_before_its_tool_returns(
    stage: Stage, scripted: Scripted
) -> None:
    sent: list[asyncio.Task[None]] = []

    async def order(context: ToolContext) -> str:
        token = context.later()
        sent.append(asyncio.create_task(complete_call(stage.client, token, "at once")))
        await asyncio.sleep(0.2)
        return token

    async with stage.worker({"order": order}):
        run = await stage.start(
            scripted_agent(scripted([asks(call("order", "c1")), says("over")]), [ORDER])
        )
        await run.result()
        await sent[0]
    assert results(await run.messages()) == ["at once"]


async def test_an_isolated_function_gives_the_same_token(stage: Stage, scripted: Scripted) -> None:
    from ..support.isolated_functions import order_later

    async with stage.worker([order_later]):
        declared = {"name": "order_later", "kind": "function", "parameters": []}
        run = await stage.start(
            scripted_agent(scripted([asks(call("order_later", "c1")), says("over")]), [declared])
        )
        await awaited(run)
        link = (await stage.client.get_workflow_handle(run.id).describe()).run_id
        token = CompletionToken.of(run.id, call_secret(run.id, link, 1, 0, 0))
        await complete_call(stage.client, token, "delivered")
        await run.result()
    assert results(await run.messages()) == ["delivered"]


async def test_a_run_without_a_server_has_nobody_to_finish_a_call(scripted: Scripted) -> None:
    replies = [asks(call("order", "c1")), says("over")]
    agent = scripted_agent(scripted([]), [ORDER])
    result = await InProcessRun(agent, model=replies, tools={"order": Order()}).run()
    assert "needs a run on a Temporal server" in results(result.messages)[0]


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), 1e12])
def test_a_time_out_that_is_none_is_refused(timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        ToolContext(secret=lambda: "secret").later(timeout)


def test_a_key_that_is_too_short_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_CALL_KEY", "short")
    with pytest.raises(ConfigurationError, match="openssl rand -hex 32"):
        call_secret("run")


def test_a_key_gives_the_same_secret_to_every_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_CALL_KEY", "0" * 32)
    first, other = call_secret("run", 1, 0), call_secret("run", 1, 1)
    assert first == call_secret("run", 1, 0)
    assert call_secret("run", 1, 10) != call_secret("run", 11, 0)
    assert first != other
    assert read_token(CompletionToken.of("a/run/1", first)).run_id == "a/run/1"
