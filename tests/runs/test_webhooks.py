"""Webhooks: what becomes of a run is told, signed and at least once, to addresses that a worker may
call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import ValidationError

from perdure import Agent, RunOptions, WorkerLimits
from perdure.errors import ConfigurationError, RunCancelled, RunError
from perdure.json_types import JsonObject
from perdure.prompty.worker_limits import OPEN
from perdure.settings.agent_file import called_options, options_for
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.receiver import SECRET, Receiver, receiving
from ..support.stage import Stage
from ..support.waiting import asked, wait_for

PAY: JsonObject = {
    "name": "pay",
    "kind": "function",
    "parameters": [],
    "perdure": {"approval": "always"},
}


def pay() -> str:
    return "paid"


@pytest.fixture
async def receiver(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Receiver]:
    monkeypatch.setenv("PERDURE_WEBHOOK_SECRET", SECRET)
    async with receiving() as it:
        yield it


async def taken(receiver: Receiver, count: int) -> list[str]:
    async def probe() -> bool:
        return len(receiver.taken) >= count

    await wait_for(probe)
    return [body["type"] for _, body in receiver.taken]


async def test_who_waits_and_ends_is_told(
    stage: Stage, scripted: Scripted, receiver: Receiver
) -> None:
    async with stage.worker([pay], limits=OPEN):
        agent = scripted_agent(scripted([asks(call("pay", "c1")), says("over")]), [PAY])
        run = await stage.start(agent, webhooks=[receiver.url])
        assert await taken(receiver, 1) == ["run.waiting"]
        pending = (await run.status()).pending_approvals[0]
        asked = {"callId": "c1", "kind": "approval", "name": "pay", "digest": pending.digest}
        assert receiver.of_type("run.waiting")[0]["call"] == asked
        await run.approve("c1", digest=pending.digest)
        await run.result()
        assert await taken(receiver, 2) == ["run.waiting", "run.done"]
    ids = {id for id, _ in receiver.taken}
    assert len(ids) == 2
    data = receiver.of_type("run.done")[0]
    assert (data["run"], data.keys()) == (run.id, {"run", "agent"})
    history = (await stage.client.get_workflow_handle(run.id).fetch_history()).to_json()
    assert SECRET not in history


async def test_it_is_told_again_until_it_is_taken_under_the_same_id(
    stage: Stage, scripted: Scripted, receiver: Receiver
) -> None:
    receiver.answer = lambda number: [500, 302, 204][number - 1]
    async with stage.worker(limits=OPEN):
        run = await stage.start(
            scripted_agent(scripted([says("over")]), []), webhooks=[receiver.url]
        )
        await run.result()
        await taken(receiver, 1)
    assert len(receiver.attempts) == 3
    assert len(set(receiver.attempts)) == 1


async def test_a_receiver_that_is_gone_is_told_once(
    stage: Stage, scripted: Scripted, receiver: Receiver
) -> None:
    receiver.answer = lambda number: 410
    async with stage.worker(limits=OPEN):
        run = await stage.start(
            scripted_agent(scripted([says("over")]), []), webhooks=[receiver.url]
        )
        await run.result()
        notice = await _notice(stage, receiver)
        await notice.result()
    assert len(receiver.attempts) == 1


async def _notice(stage: Stage, receiver: Receiver) -> Any:
    async def attempted() -> bool:
        return bool(receiver.attempts)

    await wait_for(attempted)
    return stage.client.get_workflow_handle(f"perdure-notice-{receiver.attempts[0][0]}")


@pytest.mark.parametrize("end", ["failed", "cancelled", "held"])
async def test_other_ends_are_told(
    stage: Stage, scripted: Scripted, receiver: Receiver, end: str
) -> None:
    options: JsonObject = {
        "webhooks": [{"url": receiver.url, "events": ["run.failed", "run.cancelled", "run.held"]}]
    }
    options |= {"max_tool_calls": 1} if end != "cancelled" else {}
    options |= {"on_failure": "hold"} if end == "held" else {}
    replies = [asks(call("pay", "c1")), asks(call("pay", "c2")), says("over")]
    declared = (
        {**PAY, "perdure": {"approval": "always"}} if end == "cancelled" else {**PAY, "perdure": {}}
    )
    async with stage.worker([pay], limits=OPEN):
        run = await stage.start(scripted_agent(scripted(replies), [declared]), **options)
        if end == "cancelled":
            await asked(run)
            await run.cancel()
            with pytest.raises(RunCancelled):
                await run.result()
        elif end == "failed":
            with pytest.raises(RunError):
                await run.result()
        assert await taken(receiver, 1) == [f"run.{end}"]
        if end == "held":
            assert receiver.of_type("run.held")[0]["held"]["reason"] == "budget"
            await run.go_on(options={"max_tool_calls": 10})
            await run.result()
        if end == "failed":
            assert receiver.of_type("run.failed")[0]["error"]["kind"] == "limit_exceeded"


async def test_private_addresses_are_not_called(
    stage: Stage, scripted: Scripted, receiver: Receiver
) -> None:
    async with stage.worker(limits=WorkerLimits(hosts=None)):
        run = await stage.start(
            scripted_agent(scripted([says("over")]), []),
            webhooks=[receiver.url.replace("127.0.0.1", "localhost")],
        )
        await run.result()

        async def failure() -> str:
            return await _failure_of_notice(stage)

        text = await wait_for(failure)
    assert "leads to the private address" in text
    assert "--allow-hosts localhost:" in text
    assert receiver.attempts == []


async def _failure_of_notice(stage: Stage) -> str:
    async for found in stage.client.list_workflows(f"TaskQueue = '{stage.task_queue}'"):
        if found.workflow_type == "perdure.Notice":
            pending = (
                await stage.client.get_workflow_handle(found.id).describe()
            ).raw_description.pending_activities
            return next(
                (each.last_failure.message for each in pending if each.HasField("last_failure")), ""
            )
    return ""


async def test_the_workers_owner_is_told_of_every_run(
    stage: Stage, scripted: Scripted, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_WEBHOOKS", f"{receiver.url}/owner")
    monkeypatch.setenv("PERDURE_GATEWAY_URL", "https://agents.example.org/")
    async with stage.worker(limits=WorkerLimits(hosts=None)):
        run = await stage.start(scripted_agent(scripted([says("over")]), []))
        await run.result()
        await taken(receiver, 1)
    [data] = receiver.of_type("run.done")
    assert data["link"] == f"https://agents.example.org/perdure/runs/{run.id}"
    assert data["page"] == f"https://agents.example.org/#/run/{run.id}"


async def test_where_nobody_is_told_nothing_is_recorded(stage: Stage, scripted: Scripted) -> None:
    async with stage.worker():
        run = await stage.start(scripted_agent(scripted([says("over")]), []))
        await run.result()
    history = (await stage.client.get_workflow_handle(run.id).fetch_history()).to_json()
    assert "webhook" not in history
    assert "perdure.notify" not in history


def test_a_webhook_is_a_plain_url_and_its_secret_a_variable() -> None:
    read = RunOptions(webhooks="https://a.example/x,https://b.example").webhooks  # type: ignore[arg-type]
    assert [each.url for each in read] == ["https://a.example/x", "https://b.example"]
    for wrong in (
        "ftp://a",
        "https://user:secret@a.example",
        {"url": "https://a", "secret": "whsec_literal"},
    ):
        with pytest.raises(ValidationError):
            RunOptions(webhooks=[wrong])  # type: ignore[list-item]
    with pytest.raises(ValidationError):
        RunOptions(webhooks=[{"url": "https://a", "events": ["run.started"]}])  # type: ignore[list-item]


def test_the_file_and_who_starts_a_run_are_both_told() -> None:
    told = {"url": "https://author.example", "events": ["run.failed"]}
    agent = Agent(name="told", metadata={"perdure": {"webhooks": [told]}})
    options = options_for(agent, RunOptions(webhooks=["https://caller.example"]))  # type: ignore[list-item]
    assert [each.url for each in options.webhooks] == [
        "https://caller.example",
        "https://author.example",
    ]
    called = called_options(options, agent, Agent(name="called"))
    assert called.webhooks == options.webhooks


def test_a_webhook_of_the_owner_that_is_none_is_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from perdure.activities.notices import Notifier

    monkeypatch.setenv("PERDURE_WEBHOOKS", "not-a-url")
    with pytest.raises(ConfigurationError, match="PERDURE_WEBHOOKS='not-a-url'"):
        Notifier(OPEN)
