"""`perdure doctor`: each finding, on a server that has all that is wrong."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from perdure.cli.doctor.doctor import examined
from perdure.cli.doctor.findings import CHECKS, Finding
from perdure.cli.doctor.server import of_version
from perdure.cli.doctor.workers import QueueWorker
from perdure.cli.server_connection import ServerConnection
from perdure.client import start_run
from perdure.client.connection import register_search_attributes
from perdure.client.embedded.launch import dynamic_config, find_binary
from perdure.payloads.converter import data_converter, perdure_data_converter
from perdure.protocol.names import WORKFLOW
from perdure.protocol.run import RunInput
from perdure.testing import ScriptedModel, ScriptedReply, asks, call
from perdure.worker import create_worker

from ...support.agents import scripted_agent
from ...support.command_line import Cli
from ...support.stage import Stage
from ...support.waiting import wait_for

UNFIT = (
    "frontend.namespaceRPS.visibility=5",
    "history.MaxBufferedQueryCount=1",
    "system.numConsecutiveWorkflowTaskProblemsToTriggerSearchAttribute=1",
)
SHORT_POLLS = 'matching.longPollExpirationInterval="1s"'
"""Who has gone is soon known."""
KEY = "k1:" + "A" * 43 + "="
POLL = 3.0


@asynccontextmanager
async def server_with(*settings: str) -> AsyncIterator[Client]:
    """A server of its own, with these settings and no search attributes of perdure's."""
    binary = find_binary()
    async with await WorkflowEnvironment.start_local(
        data_converter=perdure_data_converter,
        dev_server_existing_path=str(binary) if binary else None,
        dev_server_log_level="error",
        dev_server_extra_args=dynamic_config(*settings),
    ) as environment:
        yield environment.client


@pytest.fixture(scope="module")
async def unfit() -> AsyncIterator[Client]:
    """A server that nobody has told anything."""
    async with server_with(*UNFIT, SHORT_POLLS) as client:
        yield client


async def another(client: Client, key: str | None = None) -> Client:
    """A connection of its own, as each worker needs."""
    address = client.service_client.config.target_host
    return await Client.connect(address, data_converter=data_converter(encryption=key))


async def found(client: Client, *, probe: bool = False, ahead: float = 0.0) -> dict[str, Finding]:
    """Findings by id; of several with one id, the last one, with the texts of all."""
    server = ServerConnection(client, None)
    _, findings = await examined(
        server, ["v", "w"], probe=probe, within=POLL, clock=lambda: time.time() + ahead
    )
    texts = {
        each.id: "\n".join(other.text for other in findings if other.id == each.id)
        for each in findings
    }
    return {finding.id: finding._replace(text=texts[finding.id]) for finding in findings}


async def test_what_is_wrong_with_the_server(unfit: Client, cli: Cli) -> None:
    findings: dict[str, Finding] = {}
    expected = {"search-attributes-missing", "short-retention", "clock"}
    measured = {"visibility-quota", "query-buffer"}
    deadline = time.monotonic() + 100
    while (
        missing := (expected | measured) - findings.keys()
    ):  # a busy machine hides what is measured now and then
        assert time.monotonic() < deadline, missing
        findings.update(await found(unfit, probe=True, ahead=30.0))
    assert findings["search-attributes-missing"].do == "perdure setup"
    assert "--retention 720h" in findings["short-retention"].do
    assert re.search(r"(29|30)\.\d s ahead of", findings["clock"].text)
    assert findings["query-buffer"].do.startswith("set history.MaxBufferedQueryCount: 100 in")
    address = unfit.service_client.config.target_host
    told = await cli(
        "--address", address, "--namespace", "nowhere", "doctor", "--json", "--no-probe"
    )
    assert told.code == 1
    assert [each["id"] for each in json.loads(told.stdout)["findings"]] == ["no-namespace"]


def test_a_worker_that_polls_no_more_is_gone() -> None:
    silent, gone = (QueueWorker("w", None, seconds).as_json(within=7.5) for seconds in (7.0, 8.0))
    assert (silent["isGone"], gone["isGone"]) == (False, True)


def test_a_server_that_is_too_old() -> None:
    [old] = of_version("1.29.1")
    assert (old.level, old.about["version"]) == ("error", "1.29.1")
    assert old.text == "the server's version is 1.29.1, perdure needs 1.31"
    assert old.do.startswith("upgrade the server to 1.31 or newer")
    assert not [*of_version("1.31.0"), *of_version("unknown")]


def test_the_page_has_a_row_for_each_finding() -> None:
    page = (Path(__file__).parents[3] / "docs/operations/doctor.md").read_text()
    assert [id for id in CHECKS if f"`{id}`" not in page] == []


async def hold_a_run(stage: Stage) -> None:
    """Start a run whose provider refuses its key."""
    with ScriptedModel([ScriptedReply(status=401)]) as model:
        run = await stage.start(scripted_agent(model), id="refused", on_failure="hold")

        async def is_held() -> bool:
            return (await run.status()).status == "held"

        await wait_for(is_held)


async def test_what_is_wrong_with_runs_and_workers(
    unfit: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await register_search_attributes(unfit)
    await asyncio.sleep(1.0)  # until the server knows them everywhere
    with ScriptedModel([asks(call("settle_the_bill"))] * 9) as model:
        agent = scripted_agent(model, ["settle_the_bill"])
        async with AsyncExitStack() as stack:
            await start_run(unfit, agent, id="lonely", task_queue="nobody")
            await unfit.start_workflow(WORKFLOW, {"agent": {}}, id="foreign", task_queue="nobody")
            stage = Stage(unfit, "q")
            await stack.enter_async_context(stage.worker({"echo": str}))
            monkeypatch.setenv("PERDURE_STORAGE", f"file://{tmp_path}")
            of_storage = create_worker(
                await another(unfit), task_queue="q", tools={"echo": str}, identity="other"
            )
            await stack.enter_async_context(of_storage)
            monkeypatch.delenv("PERDURE_STORAGE")
            await stage.start(agent, id="lacking")
            await unfit.start_workflow(
                WORKFLOW,
                RunInput(agent=agent, messages=[], loop_version=99),
                id="failing",
                task_queue="q",
            )
            await start_run(await another(unfit, KEY), agent, id="secret", task_queue="q")
            for key, rate in ((KEY, 20.0), (KEY.replace("k1", "k2"), 30.0)):
                client = await another(unfit, key)
                rates = create_worker(
                    client, task_queue="w", identity=f"at {rate:g}", model_rate={"openai/m": rate}
                )
                await stack.enter_async_context(rates)
            versioned = create_worker(
                await another(unfit), task_queue="v", deployment="d", build_id="1"
            )
            await stack.enter_async_context(versioned)

            await hold_a_run(stage)
            expected = {
                "held",
                "no-worker",
                "no-tool",
                "failing-tasks",
                "no-key",
                "no-current-version",
                "different-storage",
                "different-encryption-keys",
                "different-rates",
            }

            async def all_seen() -> dict[str, Finding] | None:
                findings = await found(unfit)
                if (
                    not expected <= set(findings)
                    or "version 99" not in findings["failing-tasks"].text
                ):
                    return None
                return findings if "lacking" in findings["no-tool"].about["runs"] else None

            findings = await wait_for(all_seen, every=0.5, timeout=60)
    assert "refused (credentials): LLM call failed" in findings["held"].text
    assert findings["held"].do.endswith("perdure go-on --status held (perdure docs waiting)")
    assert findings["no-worker"].about["runs"] == ["foreign", "lonely"]
    assert findings["no-worker"].do.startswith("perdure worker --task-queue nobody")
    assert findings["no-tool"].text.startswith(
        "no worker of the task queue 'q' has the tool 'settle_the_bill'"
    )
    assert "lacking" in findings["no-tool"].about["runs"]
    assert findings["no-key"].about == {"queue": "q", "key": "k1", "runs": ["secret"]}
    assert "at 20: ['k1']; at 30: ['k2']" in findings["different-encryption-keys"].text
    assert (
        findings["different-encryption-keys"].do
        == "give all of them the same PERDURE_ENCRYPTION_KEY"
    )
    assert (
        "at 20: {'openai/m': 20.0}; at 30: {'openai/m': 30.0}" in findings["different-rates"].text
    )
    assert findings["different-rates"].do == "give all of them the same --rate"
    assert findings["no-current-version"].do.endswith("--deployment-name d --build-id 1 --yes")
