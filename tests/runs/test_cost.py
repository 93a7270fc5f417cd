"""What a run costs, on a real server: priced by its workers, recorded, counted, limited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import (
    Client,
    FetchWorkflowHistoryEventsInput,
    Interceptor,
    OutboundInterceptor,
    WorkflowHistoryEventAsyncIterator,
    WorkflowHistoryEventFilterType,
)

from perdure import load
from perdure.client import RunHandle, get_run
from perdure.errors import LimitExceededError, RunError
from perdure.protocol.search_attributes import COST
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.families import calls, family_script, write_agent
from ..support.stage import Stage

PRICES = {"openai/*": {"input": 0, "output": 1000}}
"""A dollar is a thousand tokens of output."""


def look(text: str = "") -> str:
    return "seen"


async def shown_cost(stage: Stage, run: RunHandle) -> float | None:
    described = await stage.client.get_workflow_handle(run.id).describe()
    return described.typed_search_attributes.get(COST)


async def upserts(stage: Stage, run: RunHandle) -> int:
    history = await stage.client.get_workflow_handle(run.id).fetch_history()
    kinds = [event.event_type for event in history.events]
    return kinds.count(EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES)


async def test_the_cost_is_in_result_status_events_and_search_attribute(
    stage: Stage, scripted: Scripted
) -> None:
    model = scripted([asks(call("look"), output_tokens=20), says("done", output_tokens=5)])
    async with stage.worker({"look": look}, prices=PRICES):
        run = await stage.start(scripted_agent(model, ["look"]))
        assert await shown_cost(stage, run) in (0.0, 0.025)
        result = await run.result()
        status = await run.status()
    assert (result.cost_usd, result.unpriced_calls) == (0.025, 0)
    assert (status.cost_usd, status.unpriced_calls) == (0.025, 0)
    events = await run.events()
    assert [event.data["costUsd"] for event in events if event.type == "llm_complete"] == [
        0.02,
        0.005,
    ]
    assert await shown_cost(stage, run) == 0.025
    assert await upserts(stage, run) == 1, "with the status, at the end"
    await stage.replay()


async def test_a_limit_without_a_price_fails_at_the_start(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    model = scripted([says("never asked")])
    chief = write_agent(tmp_path, "chief.prompty", model, tools=[calls("clerk.prompty")])
    write_agent(tmp_path, "clerk.prompty", model)
    async with stage.worker(prices={"openai/chief": {"input": 1, "output": 1}}):
        run = await stage.start(load(chief), max_cost_usd=0.5)
        with pytest.raises(
            RunError, match=r"^max_cost_usd=0.5 can't be held: no price is known for openai/clerk\."
        ) as no:
            await run.result()
    assert no.value.kind == "configuration"
    assert "PERDURE_PRICES=FILE" in str(no.value)
    assert model.requests == []


async def test_a_worker_without_the_prices_ends_a_run_that_has_a_limit(
    stage: Stage, scripted: Scripted
) -> None:
    model = scripted([asks(call("look"), input_tokens=0, output_tokens=0), says("done")])
    async with stage.worker({"look": look}, prices=PRICES):
        run = await stage.start(scripted_agent(model, ["look"]), max_cost_usd=1)
        with pytest.raises(LimitExceededError, match="^Budget not certain: max_cost_usd"):
            await run.result()
    assert (await run.status()).unpriced_calls == 1


async def test_called_runs_share_what_is_left_and_tell_what_they_have_cost(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    def looking(request: Any) -> Any:
        return asks(call("look", f"{request.step}"), output_tokens=100)

    chief_says = [
        asks(call("clerk", "a"), call("clerk", "b"), output_tokens=100),
        says("done", output_tokens=100),
    ]
    model = scripted(family_script({"chief": chief_says, "clerk": looking}))
    chief = write_agent(tmp_path, "chief.prompty", model, tools=[calls("clerk.prompty")])
    write_agent(tmp_path, "clerk.prompty", model, tools=[{"name": "look", "kind": "function"}])
    async with stage.worker({"look": look}, prices=PRICES):
        run = await stage.start(
            load(chief), parallel_tool_calls=True, max_cost_usd=0.5, on_limit="final_answer"
        )
        result = await run.result()
    # The caller's first call leaves 0.40, a half of which is two calls of a clerk.
    told = tool_texts(result.messages)
    assert len(told) == 2
    assert (result.cost_usd, result.is_incomplete) == (0.8, True)
    for place in ("1-0", "1-1"):
        called = run.called(f"{run.id}/{place}")
        assert (await called.status()).cost_usd == 0.3
        assert await shown_cost(stage, called) == 0.3


class WholeHistories(Interceptor):
    """Counts how often a client asks for all events of a history."""

    def __init__(self) -> None:
        self.asked = 0

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        return _Counting(next, self)


class _Counting(OutboundInterceptor):
    def __init__(self, next: OutboundInterceptor, counts: WholeHistories) -> None:
        super().__init__(next)
        self._counts = counts

    def fetch_workflow_history_events(
        self, input: FetchWorkflowHistoryEventsInput
    ) -> WorkflowHistoryEventAsyncIterator:
        self._counts.asked += input.event_filter_type == WorkflowHistoryEventFilterType.ALL_EVENT
        return super().fetch_workflow_history_events(input)


async def test_a_small_result_is_read_without_the_history(stage: Stage, scripted: Scripted) -> None:
    model = scripted([asks(call("look"), output_tokens=7), says("done", output_tokens=9)])
    async with stage.worker({"look": look}):
        await (await stage.start(scripted_agent(model, ["look"]))).result()
    counts, address = WholeHistories(), stage.client.service_client.config.target_host
    client = await Client.connect(
        address, data_converter=stage.client.data_converter, interceptors=[counts]
    )
    run = get_run(client, stage.runs[0].id)
    assert (await run.result()).usage.output_tokens == 16
    assert counts.asked == 0, "the history is not read for it"
