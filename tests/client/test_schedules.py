"""Runs that start by themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError

from perdure.agents import Agent
from perdure.client import RunOptions, get_run
from perdure.client.schedules import (
    ScheduleError,
    create_schedule,
    delete_schedule,
    get_schedule,
    list_schedules,
    pause_schedule,
    resume_schedule,
    run_schedule,
)
from perdure.errors import ConfigurationError
from perdure.history.link import read_input
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.payloads.encryption.keys import new_key
from perdure.protocol.search_attributes import AGENT, ORIGIN, TENANT
from perdure.testing import says

from ..runs.test_encryption import texts_in, with_key
from ..support.agents import QUESTION, Scripted, scripted_agent
from ..support.stage import Stage
from ..support.waiting import wait_for

MONDAYS = "0 7 * * 1"


@pytest.fixture
async def name(client: Client, task_queue: str) -> AsyncIterator[str]:
    """Of a schedule, which is deleted after the test."""
    name = task_queue.replace("test-", "weekly-")
    yield name
    with suppress(RPCError):
        await client.get_schedule_handle(name).delete()


async def created(client: Client, name: str, agent: Agent, **more: Any) -> Any:
    given = {"cron": MONDAYS, "messages": QUESTION, **more}
    return await create_schedule(client, name, agent, **given)


async def test_a_schedule_and_its_runs(stage: Stage, scripted: Scripted, name: str) -> None:
    client, agent = stage.client, scripted_agent(scripted([says("done")]), description="Reports.")
    made = await created(
        client, name, agent, timezone="Europe/Berlin", task_queue=stage.task_queue, tenant="acme",
        options=RunOptions(max_iterations=3), memo={"note": "weekly"},
    )  # fmt: skip
    assert (made.agent, made.cron, made.timezone) == ("tested", [MONDAYS], "Europe/Berlin")
    assert (made.paused, made.overlap, made.task_queue, made.started) == (
        False,
        "skip",
        stage.task_queue,
        0,
    )
    assert [when.weekday() for when in made.next] == [0] * 5
    await wait_for(lambda: is_listed(client, name))
    await run_schedule(client, name)
    run_id = await wait_for(lambda: first_run(client, name))
    assert run_id.startswith(f"{name}-2")
    async with stage.worker():
        assert (await get_run(client, run_id).result()).output == "done"
    run = await client.get_workflow_handle(run_id).describe()
    attributes = run.typed_search_attributes
    assert [attributes.get(key) for key in (AGENT, ORIGIN, TENANT)] == [
        "tested",
        f"schedule:{name}",
        "acme",
    ]
    assert await run.static_summary() == "tested: What is it?"
    assert "Reports." in (await run.static_details() or "")
    memo = await run.memo()
    assert (memo["agent"], memo["note"]) == ("tested", "weekly")
    input = await read_input(client, run_id, run.run_id)
    assert input.options.max_iterations == 3
    assert {"PerdureOrigin", "PerdureStatus"} <= set(input.search_attributes)


async def is_listed(client: Client, name: str) -> bool:
    return name in [each.name for each in await list_schedules(client)]


async def first_run(client: Client, name: str) -> str:
    return next(iter((await get_schedule(client, name)).runs), "")


async def test_pause_resume_replace_delete(client: Client, scripted: Scripted, name: str) -> None:
    agent = scripted_agent(scripted([]))
    await created(client, name, agent)
    await pause_schedule(client, name)
    paused = await get_schedule(client, name)
    assert (paused.paused, paused.next) == (True, [])
    with pytest.raises(ScheduleError, match="there is a schedule 'weekly-.*--replace"):
        await created(client, name, agent)
    other = agent.model_copy(update={"name": "other"})
    replaced = await created(
        client, name, other, cron=(), every=timedelta(hours=1), replace=True, overlap="buffer"
    )
    assert (replaced.agent, replaced.every, replaced.cron) == ("other", 3600.0, [])
    assert (replaced.paused, replaced.overlap) == (True, "buffer_one")
    await resume_schedule(client, name)
    assert len((await get_schedule(client, name)).next) == 5
    await delete_schedule(client, name)
    for change in (get_schedule, pause_schedule, resume_schedule, run_schedule, delete_schedule):
        with pytest.raises(ScheduleError, match="there is no schedule"):
            await change(client, name)


UNKNOWN = TypedSearchAttributes(
    [SearchAttributePair(SearchAttributeKey.for_keyword("BlockedLoop"), "x")]
)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"cron": "7 o'clock"}, "Expected a cron expression such as"),
        ({"cron": "99 7 * * 1"}, "Expected a cron expression such as"),
        ({"timezone": "Mars/Base"}, "Expected a time zone such as Europe/Berlin"),
        ({"every": 60}, "expected either cron"),
        ({"cron": ()}, "expected either cron"),
        ({"cron": (), "every": 0.1}, "expected a second at least"),
        ({"cron": (), "every": float("inf")}, "every inf: expected seconds"),
        ({"cron": (), "every": timedelta.max}, "at most"),
        ({"overlap": "never"}, "expected one of skip, buffer"),
        ({"search_attributes": UNKNOWN}, "perdure setup"),
        ({"tenant": "sk-a-very-secret-value-of-mine"}, "tenant contains a secret"),
        ({"origin": "elsewhere"}, "origin: the schedule sets it"),
    ],
)
async def test_what_cannot_be_scheduled(
    client: Client,
    scripted: Scripted,
    name: str,
    given: JsonObject,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "sk-a-very-secret-value-of-mine")
    with pytest.raises(ConfigurationError, match=problem):
        await created(client, name, scripted_agent(scripted([])), **given)
    assert name not in [each.name for each in await list_schedules(client)]


async def test_an_encrypted_schedule(client: Client, scripted: Scripted, name: str) -> None:
    sealed = with_key(client, new_key("test"))
    agent = scripted_agent(scripted([]), description="unspeakable")
    await created(
        sealed, name, agent, messages=[Message.user("unspeakable")], memo={"note": "unspeakable"}
    )
    found = await client.get_schedule_handle(name).describe()
    assert "unspeakable" not in " ".join(texts_in(found.raw_description))
    here = await get_schedule(client, name)
    assert here.agent == "tested"
    assert (await get_schedule(sealed, name)).agent == "tested"
