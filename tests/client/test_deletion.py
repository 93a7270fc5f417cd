"""Runs, sessions and schedules are deleted, and a sweep removes what nothing refers to then."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import random
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from perdure.agents import Agent
from perdure.client import (
    RunHandle,
    delete_run,
    delete_tenant,
    get_run,
    session,
    start_run,
    sweep_storage,
)
from perdure.client.deletion import Deletions, DeletionTarget
from perdure.client.embedded.state import forget_deleted
from perdure.client.family import Family
from perdure.client.schedules import (
    create_schedule,
    delete_schedule,
    list_schedules,
    run_schedule,
)
from perdure.errors import DeletionError, RunNotFound
from perdure.messages import Message
from perdure.payloads.converter import data_converter
from perdure.prompty.load import load
from perdure.testing import ScriptedReply, asks, call, says
from perdure.testing.script import ScriptedRequest
from perdure.tools import tool

from ..support.agents import Scripted, scripted_agent
from ..support.command_line import Cli
from ..support.dev_server import DevServer
from ..support.families import calls, family_script, write_agent
from ..support.stage import Stage
from ..support.tracing import names, require_tree
from ..support.waiting import wait_for

QUICK = [
    f'history.{queue}ProcessorUpdateAckInterval="100ms"'
    for queue in ("transfer", "timer", "visibility")
]
"""Dynamic configuration: a server deletes a run that has ended just now at once, not a minute
later."""
SHORT_HISTORY = "limit.historyCount.suggestContinueAsNew=40"
LARGE = 400_000


def noise(mark: str, size: int = LARGE) -> str:
    """Text that hardly compresses, with the mark in it."""
    return mark + base64.b64encode(random.Random(mark).randbytes(size)).decode()


@tool
def draw(text: str = "") -> str:
    """Draw."""
    return noise(text)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def holders(folder: Path, text: str) -> list[str]:
    """The files in which the text is."""
    return [
        str(path.relative_to(folder))
        for path in files(folder)
        if text.encode() in path.read_bytes()
    ]


@pytest.fixture(scope="module")
async def database(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Path, Client]]:
    """The folder of a server's database, and a client."""
    folder = tmp_path_factory.mktemp("data")
    async with DevServer(folder / "temporal.db", *QUICK, SHORT_HISTORY) as server:
        yield folder, server.client


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Where the test's client stores large values."""
    return tmp_path / "storage"


@pytest.fixture
def stage(database: tuple[Path, Client], task_queue: str, storage: Path) -> Stage:
    settings = database[1].config(active_config=True)
    settings["data_converter"] = data_converter(storage=storage.as_uri())
    return Stage(Client(**settings), task_queue)


async def are_gone(client: Client, *ids: str) -> bool:
    """Whether the server has nothing of them any more."""
    for id in ids:
        try:
            await get_run(client, id).status()
        except RunNotFound:
            continue
        except ApplicationError:  # what was stored went before the history
            return False
        return False
    return True


def one_tool(request: ScriptedRequest) -> ScriptedReply:
    """Asks for a large drawing with the mark of the question, then answers with it."""
    mark = next(message.text for message in request.messages if message.role == "user").split()[0]
    return (
        says(f"{mark} it is")
        if request.messages[-1].role == "tool"
        else asks(call("draw", "drawn", text=mark))
    )


async def drawing(stage: Stage, agent: Agent, mark: str, **more: Any) -> RunHandle:
    return await stage.start(agent, [Message.user(f"{mark} {noise(mark, 1000)}")], **more)


async def test_nothing_of_a_tenant_is_left(
    database: tuple[Path, Client],
    stage: Stage,
    scripted: Scripted,
    storage: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, "perdure")
    folder, client = database[0], stage.client
    tenant, mark = f"tenant-{uuid.uuid4()}", f"MARK{uuid.uuid4().hex}"
    model = scripted(one_tool)
    agent = scripted_agent(model, ["draw"])
    replies = {"chief": [asks(call("clerk", q=mark)), says(mark)], "clerk": [says(f"clerk {mark}")]}
    family = scripted(family_script(replies))
    chief = write_agent(
        tmp_path, "chief.prompty", family, tools=[calls("clerk.prompty")], prompt=f"user:\n{mark}"
    )
    write_agent(tmp_path, "clerk.prompty", family, prompt=f"user:\n{mark} {noise(mark)}")
    async with stage.worker([draw]):
        other = await drawing(stage, agent, "other", tenant=f"not-{tenant}")
        talk = session(
            client, agent, f"session-{uuid.uuid4()}", task_queue=stage.task_queue, tenant=tenant
        )
        turn = await talk.send(f"{mark} hello")
        await turn.result()
        runs = [await drawing(stage, agent, mark, tenant=tenant) for _ in range(3)]
        caller = await start_run(client, load(chief), task_queue=stage.task_queue, tenant=tenant)
        name = f"schedule-{uuid.uuid4()}"
        seed = [Message.user(f"{mark} {noise(mark)}")]
        await create_schedule(
            client,
            name,
            agent,
            messages=seed,
            every=3600,
            task_queue=stage.task_queue,
            tenant=tenant,
        )
        await run_schedule(client, name)
        for run in [*runs, caller, other]:
            await run.result()
        await wait_for(lambda: _scheduled_has_ended(client, name))
        with pytest.raises(
            DeletionError,
            match=f"is open: close it first .perdure chat --session {talk.id} --close",
        ):
            await delete_run(client, talk.id)
        await talk.close()
        assert holders(folder, mark)
        assert holders(storage, mark), "the search would find what is there"

        async def is_deleted() -> bool:
            # Lists of the server are a little behind.
            report = await delete_tenant(client, tenant)
            assert not report.failed, report.failed
            return not report.deleted

        await wait_for(is_deleted, every=0.5)
    ids = [talk.id, turn.id, caller.id, f"{caller.id}/1-0", *(run.id for run in runs)]
    await wait_for(lambda: are_gone(client, *ids))
    await sweep_all(client, storage)
    assert [each.name for each in await list_schedules(client) if each.name == name] == []
    await wait_for(lambda: _is_erased(folder, storage, mark), every=0.3)
    assert mark not in caplog.text
    assert (await get_run(client, other.id).result()).output == "other it is"
    assert (await get_run(client, other.id).tool_result("drawn")).text == noise("other")


async def test_a_deletion_that_is_killed_is_completed_by_the_next_one(
    database: tuple[Path, Client],
    stage: Stage,
    scripted: Scripted,
    tmp_path: Path,
    storage: Path,
    cli: Cli,
) -> None:
    mark = f"MARK{uuid.uuid4().hex}"
    asked = asks(*[call("clerk", f"call_{number}", q=mark) for number in range(6)])
    replies = {"chief": [asked, says(noise(mark))], "clerk": [says(f"clerk {mark}")]}
    model = scripted(family_script(replies))
    chief = write_agent(tmp_path, "chief.prompty", model, tools=[calls("clerk.prompty")])
    write_agent(tmp_path, "clerk.prompty", model, prompt=f"user:\n{mark} {noise(mark)}")
    async with stage.worker():
        run = await start_run(stage.client, load(chief), task_queue=stage.task_queue)
        await run.result()
    children = [f"{run.id}/1-{number}" for number in range(6)]
    address = database[1].service_client.config.target_host
    at = {"TEMPORAL_ADDRESS": address, "PERDURE_STORAGE": storage.as_uri()}
    deleting = Cli({**cli.environment, **at})
    await deleting.start("delete", run.id, "--yes")
    await wait_for(lambda: are_gone(stage.client, children[0]))
    await deleting.close()
    again = await delete_run(stage.client, run.id)
    assert (again.left, run.id in again.runs or await are_gone(stage.client, run.id)) == ([], True)
    await wait_for(lambda: are_gone(stage.client, run.id, *children))
    await sweep_all(stage.client, storage)
    await wait_for(lambda: _is_erased(database[0], storage, mark), every=0.3)


async def _is_erased(folder: Path, storage: Path, mark: str) -> bool:
    forget_deleted(folder)
    return not holders(folder, mark) + holders(storage, mark)


@pytest.mark.trial  # The server deletes what has just begun after some seconds.
async def test_runs_that_start_while_their_tenant_is_deleted_are_whole_or_go(
    stage: Stage, scripted: Scripted
) -> None:
    tenant = f"tenant-{uuid.uuid4()}"
    agent = scripted_agent(scripted(lambda request: says("done")))

    async def started() -> str:
        run = await stage.start(agent, tenant=tenant, id=f"run-{uuid.uuid4()}")
        try:
            assert (await run.result()).output == "done"
        except RunNotFound:
            assert await are_gone(stage.client, run.id)
        return run.id

    async def is_deleted() -> bool:
        report = await delete_tenant(stage.client, tenant)
        return not report.deleted and not report.failed

    async with stage.worker():
        early = [await started() for _ in range(2)]
        late = [asyncio.create_task(started()) for _ in range(6)]
        await delete_tenant(stage.client, tenant)
        ids = [*early, *await asyncio.gather(*late)]
        await wait_for(is_deleted, every=0.5)
    await wait_for(lambda: are_gone(stage.client, *ids))


async def sweep_all(client: Client, storage: Path) -> None:
    """Sweep as if all values were stored two days ago."""
    before = time.time() - 2 * 86_400
    for path in files(storage):
        os.utime(path, (before, before))
    await sweep_storage(client)


async def _scheduled_has_ended(client: Client, name: str) -> bool:
    query = f"PerdureOrigin = 'schedule:{name}' AND ExecutionStatus = 'Completed'"
    return (await client.count_workflows(query)).count == 1


async def test_what_is_under_way_is_refused_unless_it_is_ended(
    stage: Stage, scripted: Scripted
) -> None:
    rounds = [asks(call("draw", text=f"{number}")) for number in range(5)]
    agent = scripted_agent(scripted([*rounds, says("late", delay=60)]), ["draw"])
    async with stage.worker([draw]):
        run = await stage.start(agent, max_iterations=20)

        async def has_gone_on() -> bool:
            return (await run.status()).iteration == 6

        await wait_for(has_gone_on)
        with pytest.raises(DeletionError, match="is open: end it first .perdure cancel") as refused:
            await delete_run(stage.client, run.id)
        assert refused.value.kind == "open"
        deleted = await delete_run(stage.client, run.id, force=True)
        assert (deleted.runs, deleted.histories > 1, deleted.left) == ([run.id], True, [])
        await wait_for(lambda: are_gone(stage.client, run.id))
        again = await delete_run(stage.client, run.id)
        assert (again.runs, again.histories) == ([], 0)


async def test_an_open_session_goes_with_its_turns(stage: Stage, scripted: Scripted) -> None:
    agent = scripted_agent(scripted(lambda request: says("well")))
    async with stage.worker():
        talk = session(stage.client, agent, f"session-{uuid.uuid4()}", task_queue=stage.task_queue)
        turn = await talk.send("hello")
        await turn.result()
        with pytest.raises(DeletionError, match=r"the session '.*' is open"):
            await delete_run(stage.client, talk.id)
        alone = await delete_run(stage.client, turn.id)
        assert [(each.what, each.id) for each in alone.left] == [("session", talk.id)]
        await (await talk.send("and now")).result()
        deleted = await delete_run(stage.client, talk.id, force=True)
        assert {talk.id, f"{talk.id}/2"} <= set(deleted.runs)
        await wait_for(lambda: are_gone(stage.client, turn.id, f"{talk.id}/2"))


async def test_a_called_run_alone_leaves_its_caller_whole(
    stage: Stage, scripted: Scripted, tmp_path: Path, storage: Path
) -> None:
    answer = noise("answer")
    replies = {"chief": [asks(call("clerk", "clerked")), says("done")], "clerk": [says(answer)]}
    model = scripted(family_script(replies))
    chief = write_agent(tmp_path, "chief.prompty", model, tools=[calls("clerk.prompty")])
    write_agent(tmp_path, "clerk.prompty", model, prompt=f"user:\n{noise('question')}")
    async with stage.worker():
        run = await start_run(stage.client, load(chief), task_queue=stage.task_queue)
        await run.result()
        before = [line async for line in run.export(children=False)]
        deleted = await delete_run(stage.client, f"{run.id}/1-0")
        assert [(each.what, each.id) for each in deleted.left] == [("caller", run.id)]
        await sweep_all(stage.client, storage)
        reader = get_run(stage.client, run.id)
        assert [line async for line in reader.export(children=False)] == before
        assert (await reader.tool_result("clerked")).text == answer
        spans = await reader.trace()
        require_tree(spans)
        assert names(spans)[:3] == ["invoke_agent chief", "chat chief", "execute_tool clerk"]
        fork = await run.fork(1)
        await fork.result()

        async def is_left() -> bool:
            family = await Family.read(stage.client, run.id)
            return [each.id for each in family.forks] == [fork.id]

        await wait_for(is_left)
    left = (await delete_run(stage.client, run.id)).left
    assert [(each.what, each.id) for each in left] == [("fork", fork.id)]


async def test_of_an_id_that_was_used_twice_one_run_goes(
    stage: Stage, scripted: Scripted, storage: Path
) -> None:
    agent, id = scripted_agent(scripted(one_tool), ["draw"]), f"twice-{uuid.uuid4()}"
    async with stage.worker([draw]):
        first = await drawing(stage, agent, "one", id=id)
        await first.result()
        run_id = (await stage.client.get_workflow_handle(id).describe()).run_id
        second = await drawing(stage, agent, "two", id=id)
        await second.result()

        async def are_listed() -> bool:
            return (await stage.client.count_workflows(f"WorkflowId = '{id}'")).count == 2

        await wait_for(are_listed)
        deleted = await Deletions(stage.client, going=[id]).delete(DeletionTarget(id, run_id))
        assert (deleted.histories, deleted.left) == (1, [])
        await sweep_all(stage.client, storage)
        assert (await get_run(stage.client, id).tool_result("drawn")).text == noise("two")


async def test_a_workflow_of_others_is_left_alone(stage: Stage) -> None:
    id = f"foreign-{uuid.uuid4()}"
    await stage.client.start_workflow("Foreign", id=id, task_queue=stage.task_queue)
    with pytest.raises(DeletionError, match="of the type 'Foreign', not of a run") as refused:
        await delete_run(stage.client, id)
    assert refused.value.kind == "other"
    await stage.client.get_workflow_handle(id).terminate()


async def test_a_sweep_removes_what_no_run_refers_to(
    stage: Stage, scripted: Scripted, storage: Path
) -> None:
    agent = scripted_agent(scripted(one_tool), ["draw"])
    async with stage.worker([draw]):
        run = await drawing(stage, agent, "kept")
        await run.result()
    name = f"schedule-{uuid.uuid4()}"
    seed = [Message.user(noise("seed"))]
    await create_schedule(
        stage.client, name, agent, messages=seed, every=3600, task_queue=stage.task_queue
    )
    kept = files(storage)
    assert len(kept) == 2
    orphan, young = (
        kept[0].parents[1] / ("0" * 32) / ("a" * 64),
        kept[0].parents[1] / ("1" * 32) / ("b" * 64),
    )
    shared = storage / "cc" / ("c" * 64)
    moved = kept[0].parents[1] / ("2" * 32) / kept[0].name
    for path in (orphan, young, shared, moved):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
    before = time.time() - 2 * 86_400
    for path in (*kept, orphan, shared, moved):
        os.utime(path, (before, before))
    dry = await sweep_storage(stage.client, dry_run=True)
    assert (dry.values, dry.removed) == (6, [str(orphan.relative_to(storage))])
    assert orphan.exists()
    assert (await sweep_storage(stage.client)).removed == dry.removed
    assert sorted(files(storage)) == sorted([*kept, young, shared, moved])
    assert (await sweep_storage(stage.client, shared=True)).removed == [
        str(shared.relative_to(storage))
    ]
    with pytest.raises(ValueError, match="3600 seconds at least"):
        await sweep_storage(stage.client, older_than=60)
    await delete_schedule(stage.client, name)
    await delete_run(stage.client, run.id)
    await wait_for(lambda: are_gone(stage.client, run.id))

    async def is_swept() -> bool:
        await sweep_all(stage.client, storage)
        return files(storage) == []

    await wait_for(is_swept)


async def test_a_value_that_is_stored_again_while_it_is_removed_stays(
    storage: Path, tmp_path: Path
) -> None:
    from perdure.payloads.storage import values_of

    converter = data_converter(storage=tmp_path.as_uri())
    payloads, values = (
        await converter.encode([noise("again")]),
        values_of(converter.external_storage),
    )
    assert values is not None
    [listed] = [each async for each in values.values("default")]
    os.utime(tmp_path / listed.key, (1, 1))
    assert await converter.encode([noise("again")]) == payloads
    assert await values.remove(listed) is False
    assert await converter.decode(payloads, [str]) == [noise("again")]
    [listed] = [each async for each in values.values("default")]
    assert await values.remove(listed) is True
    assert files(tmp_path) == []
