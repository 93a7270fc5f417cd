"""Alerts and dashboard: by promtool on made series, and by a Prometheus that scrapes a worker."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from temporalio.service import RPCError

from perdure.client import RunHandle, connect
from perdure.errors import ExecuteError
from perdure.json_types import JsonObject
from perdure.testing import ScriptedReply, asks, call, says
from perdure.tool_calls import PendingApproval
from perdure.tools import tool
from perdure.worker import metrics_runtime

from ..support.agents import Scripted, scripted_agent
from ..support.dev_server import free_port
from ..support.documents import ROOT
from ..support.needs import program
from ..support.stage import Stage
from ..support.waiting import wait_for

Ask = Callable[..., Awaitable[Any]]
RULES = ROOT / "docs/operations/alerts.yml"
UNIT_TESTS = Path(__file__).parent / "alerts_test.yml"
DASHBOARD: JsonObject = json.loads((ROOT / "docs/operations/dashboard.json").read_text())
EVERY_RULE = [
    rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
]
ALERTS = [rule for rule in EVERY_RULE if "alert" in rule]
GROUPING = re.compile(r"\bby \([^)]*\)|\{[^}]*\}")
METRIC = re.compile(r"\b(?:perdure|gen_ai|temporal)_\w+")
FAILING_RUNS = 4
FROM_NOTHING = " fires from nothing"
WITH_FIRST = {"temporal_workflow_task_execution_failed_total", "temporal_sticky_cache_miss_total"}
"""Begin with the first failure, and the first run that was evicted, which this test does not bring
about."""


def test_each_alert_fires_when_it_should_and_only_then() -> None:
    promtool = program("promtool", package="prometheus")
    done = subprocess.run(
        [promtool, "test", "rules", str(UNIT_TESTS)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_both_tests() -> None:
    tested = [test["name"] for test in yaml.safe_load(UNIT_TESTS.read_text())["tests"]]
    both = [f"{rule['alert']} {what}" for rule in ALERTS for what in ("fires", "does not fire")]
    assert [name for name in tested if not name.endswith(FROM_NOTHING)] == both


def _queries() -> Iterator[str]:
    for rule in EVERY_RULE:
        yield rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield _with_values(target["expr"])
    for variable in DASHBOARD["templating"]["list"]:
        if found := re.fullmatch(
            r"label_values\((.*), \w+\)", str(variable["query"] and variable.get("definition"))
        ):
            yield _with_values(found[1])


def _with_values(query: str) -> str:
    """Return the query as the dashboard sends it, with all of everything."""
    return re.sub(r"\$\w+", ".*", query.replace("$__rate_interval", "5m"))


def look(text: str) -> str:
    """Look something up."""
    return text


@tool(needs_approval=True)
def pay(text: str) -> str:
    """Pay."""
    return text


async def test_each_query_finds_what_a_worker_measures(
    address: str, task_queue: str, scripted: Scripted, tmp_path: Path
) -> None:
    prometheus = program("prometheus", package="prometheus")
    endpoint = f"127.0.0.1:{free_port()}"
    client = await connect(address, runtime=metrics_runtime(endpoint))
    with pytest.raises(RPCError):
        await client.get_workflow_handle(f"none-{task_queue}").describe()
    async with Stage(client, task_queue).worker([look, pay], prices=PRICES):
        await _work(Stage(client, task_queue), scripted)
        async with _scraped_by(prometheus, endpoint, tmp_path) as ask:
            for query in _queries():
                await ask("query", query=query)
            missing = await _names_missing(ask)
            await wait_for(lambda: _fires(ask, "PerdureRunsFail"), timeout=30)
            rules = [rule for group in (await ask("rules"))["groups"] for rule in group["rules"]]
    assert not missing, "no such metrics"
    assert len(rules) == len(EVERY_RULE)
    assert [rule["lastError"] for rule in rules if rule.get("lastError")] == []


PRICES = {"openai/scripted": {"input": 1.0, "output": 1.0}}


async def _work(stage: Stage, scripted: Scripted) -> None:
    """Have a run that ends well, after everything that is measured, and some that fail, all before
    anybody measures.
    """
    asked = asks(call("look", "1", text="a"), call("pay", "2", text="b"), input_tokens=900)
    unpriced = says("done", input_tokens=0, output_tokens=0)
    run = await stage.start(
        scripted_agent(scripted([asked, unpriced]), ["look", "pay"]), stream=True
    )
    [pending] = await wait_for(lambda: _pending(run))
    await run.approve(pending.call_id)
    await run.result()
    for _ in range(FAILING_RUNS):
        with pytest.raises(ExecuteError):
            await (
                await stage.start(scripted_agent(scripted([ScriptedReply(status=400)])))
            ).result()


async def _fires(ask: Ask, alert: str) -> bool:
    return bool(
        (await ask("query", query=f'ALERTS{{alertname="{alert}", alertstate="firing"}}'))["result"]
    )


async def _pending(run: RunHandle) -> list[PendingApproval]:
    return (await run.status()).pending_approvals


async def _names_missing(ask: Ask) -> set[str]:
    """The metrics that queries name and the worker does not have, once Prometheus has looked at
    it.
    """
    named = {name for query in _queries() for name in METRIC.findall(GROUPING.sub("", query))}
    deadline = time.monotonic() + 15
    while missing := named - WITH_FIRST - set(await ask("label/__name__/values")):
        if time.monotonic() > deadline:
            break
        await asyncio.sleep(0.2)
    return missing


@asynccontextmanager
async def _scraped_by(prometheus: Path, endpoint: str, folder: Path) -> AsyncIterator[Ask]:
    """A Prometheus that has the alerts and looks at the endpoint every second; asked by its HTTP
    API.
    """
    scrape = {
        "job_name": "any",
        "scrape_interval": "1s",
        "static_configs": [{"targets": [endpoint]}],
    }
    config = {
        "rule_files": [str(RULES)],
        "scrape_configs": [scrape],
        "global": {"evaluation_interval": "1s"},
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    options = (f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data")
    process = await asyncio.create_subprocess_exec(
        *(prometheus, *options, f"--web.listen-address={address}", "--log.level=error")
    )

    async def ask(what: str, **parameters: str) -> Any:
        url = f"http://{address}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        with await asyncio.to_thread(urllib.request.urlopen, url, timeout=30) as answer:
            return json.loads(answer.read())["data"]

    async def is_ready() -> bool:
        with suppress(OSError):
            return bool(await ask("query", query="1"))
        return False

    try:
        await wait_for(is_ready, timeout=60)
        yield ask
    finally:
        process.terminate()
        await process.wait()
