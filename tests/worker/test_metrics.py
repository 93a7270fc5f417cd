"""One endpoint has what Temporal's worker measures and what perdure does of runs."""

from __future__ import annotations

import asyncio
import re
import socket
import urllib.request

import pytest
from temporalio.client import Client

from perdure.activities.run_cache import RunCache
from perdure.client import RunHandle, connect
from perdure.errors import ConfigurationError, ExecuteError
from perdure.testing import ScriptedReply, asks, call, says
from perdure.tool_calls import PendingApproval
from perdure.tools import tool
from perdure.worker import metrics_runtime
from perdure.worker.gauges import QueueGauges
from perdure.worker.metrics import measure

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage
from ..support.waiting import wait_for

SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Scraped:
    """What an endpoint says, as Prometheus reads it."""

    def __init__(self, text: str) -> None:
        self.samples = [
            _sample(line) for line in text.splitlines() if line and not line.startswith("#")
        ]

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name which have these labels."""
        return sum(
            value
            for found, told, value in self.samples
            if found == name and labels.items() <= told.items()
        )

    def labels(self, name: str) -> list[dict[str, str]]:
        return [told for found, told, _ in self.samples if found == name]


def _sample(line: str) -> tuple[str, dict[str, str], float]:
    found = SAMPLE.match(line)
    assert found, line
    return found[1], dict(LABEL.findall(found[2] or "")), float(found[3])


async def scrape(address: str) -> Scraped:
    with await asyncio.to_thread(
        urllib.request.urlopen, f"http://{address}/metrics", timeout=30
    ) as answer:
        return Scraped(answer.read().decode())


@pytest.fixture
def endpoint() -> str:
    """A free address on this machine."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{found.getsockname()[1]}"


@pytest.fixture
async def measured(address: str, endpoint: str) -> Client:
    return await connect(address, runtime=metrics_runtime(endpoint))


@tool(needs_approval=True)
def pay(text: str) -> str:
    """Pay."""
    return f"paid {text}"


def look(text: str) -> str:
    """Look something up."""
    if text == "nowhere":
        raise LookupError(text)
    return text


async def test_two_runs_are_measured(
    measured: Client, endpoint: str, task_queue: str, scripted: Scripted
) -> None:
    """Without a cache, each workflow task replays what was before: that counts nothing again."""
    stage = Stage(measured, task_queue)
    looks = asks(
        call("look", "1", text="here"),
        call("look", "2", text="nowhere"),
        input_tokens=900,
        output_tokens=20,
    )
    model = scripted([looks, asks(call("pay", text="1")), says("done")])
    prices = {"openai/scripted": {"input": 1000.0, "output": 1000.0}}
    async with stage.worker([look, pay], max_cached_workflows=0, prices=prices):
        run = await stage.start(scripted_agent(model, ["look", "pay"]), stream=True)
        [pending] = await wait_for(lambda: _pending(run))
        await _require_gauges(measured, endpoint, task_queue)
        await run.approve(pending.call_id)
        await run.result()
        failing = await stage.start(scripted_agent(scripted([ScriptedReply(status=400)])))
        with pytest.raises(ExecuteError):
            await failing.result()
        found = await scrape(endpoint)
    _require_model_calls(found)
    _require_tools_and_waits(found)
    _require_runs(found, task_queue)
    assert (
        found.value("temporal_activity_execution_latency_seconds_count", task_queue=task_queue) > 5
    ), "Temporal's own"
    slots = {"task_queue": task_queue, "worker_type": "ActivityWorker"}
    assert found.value("temporal_worker_task_slots_available", **slots) > 90


def _require_model_calls(found: Scraped) -> None:
    model = {
        "gen_ai_provider_name": "openai",
        "gen_ai_request_model": "scripted",
        "gen_ai_operation_name": "chat",
    }
    seconds = "gen_ai_client_operation_duration_seconds_count"
    assert found.value(seconds, **model) == 4
    assert found.value(seconds, **model, error_type="") == 3
    assert found.value("gen_ai_client_operation_time_to_first_chunk_seconds_count", **model) == 1, (
        "one has said words"
    )
    tokens = "gen_ai_client_token_usage"
    assert found.value(f"{tokens}_count", **model, gen_ai_token_type="input") == 3
    assert found.value(f"{tokens}_bucket", gen_ai_token_type="input", le="1024") == 3
    assert found.value(f"{tokens}_bucket", gen_ai_token_type="output", le="67108864") == 3
    assert found.value("gen_ai_client_operation_duration_seconds_bucket", le="81.92") == 4
    whose = {"gen_ai_agent_name": "tested", "namespace": "default"}
    assert found.value("perdure_model_call_cost_dollars_sum", **model, **whose) == pytest.approx(
        1.4, abs=0.1
    )
    assert found.value("perdure_unpriced_model_calls_total") == 0
    assert found.value("perdure_cache_tokens_total", **model, **whose, kind="read") == 0
    assert {
        labels["service_name"]
        for name in (seconds, "temporal_request_total")
        for labels in found.labels(name)
    } == {"perdure"}


def _require_tools_and_waits(found: Scraped) -> None:
    tools = "gen_ai_execute_tool_duration_seconds_count"
    assert found.value(tools, gen_ai_tool_name="look") == 2
    [failed] = [each for each in found.labels(tools) if each.get("error_type")]
    assert failed["gen_ai_tool_name"] == "look"
    assert found.value(tools, gen_ai_tool_name="pay") == 1
    waits = "perdure_person_wait_duration_seconds_count"
    assert found.value(waits, kind="approval", gen_ai_tool_name="pay", outcome="approved") == 1


def _require_runs(found: Scraped, task_queue: str) -> None:
    ended, whose = (
        "perdure_runs_ended_total",
        {"gen_ai_agent_name": "tested", "task_queue": task_queue},
    )
    assert found.value("perdure_runs_started_total", **whose) == 2
    assert found.value("perdure_runs_started_total", **whose) == 2
    assert found.value(ended, **whose, outcome="done") == 1
    assert (
        found.value(ended, **whose, outcome="failed", error_type="execute", cause="bad_request")
        == 1
    )
    assert found.value("perdure_run_cost_dollars_sum") == pytest.approx(1.4, abs=0.1)
    assert found.value("gen_ai_invoke_agent_duration_seconds_count") == 2


async def _pending(run: RunHandle) -> list[PendingApproval]:
    return (await run.status()).pending_approvals


async def _require_gauges(client: Client, endpoint: str, task_queue: str) -> None:
    """The server lists a run as waiting a moment after it does."""
    runtime = client.service_client.config.runtime
    assert runtime
    gauges = QueueGauges(client, task_queue, runtime.metric_meter)

    async def waiting() -> Scraped | None:
        await gauges.measure()
        found = await scrape(endpoint)
        return found if found.value("perdure_runs_waiting", task_queue=task_queue) == 1 else None

    found = await wait_for(waiting)
    queue = {"task_queue": task_queue, "namespace": "default"}
    assert found.value("perdure_runs_under_way", **queue) == 1
    assert found.value("perdure_runs_held", **queue) == 0
    assert found.value("perdure_runs_closed_last_hour", **queue) == 0
    assert found.labels("perdure_backlog_age_seconds"), "by type of task"


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(
            ConfigurationError,
            match=f"no metrics can be served at '{where}': Address already in use",
        ):
            metrics_runtime(where)


@pytest.mark.parametrize(
    "address", ["9464", "example.com:9464", "127.0.0.1:0", "127.0.0.1:x", "127.0.0.1"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(
        ConfigurationError, match="Expected an IP address, or localhost, and a port"
    ):
        metrics_runtime(address)


async def test_a_worker_without_metrics_has_nothing_in_the_way(client: Client) -> None:
    assert measure(client, RunCache(0)) == []
