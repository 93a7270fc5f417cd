"""Runs whose large values are stored outside Temporal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from perdure.client import RunHandle, get_run
from perdure.errors import ConfigurationError, RunError
from perdure.messages import ImagePart, Message, TextPart
from perdure.payloads.converter import data_converter
from perdure.testing import asks, call, says
from perdure.tools import tool

from ..support.agents import QUESTION, Scripted, scripted_agent
from ..support.comparison import fingerprints, links, portable, run_in_process
from ..support.sessions import SessionStage, talk
from ..support.stage import Stage
from ..support.waiting import wait_for
from .test_large_conversations import noise

LARGE = 3_000_000


@tool
def draw(text: str = "") -> ImagePart:
    """Draw."""
    return ImagePart(source=noise(900_000, text), mediaType="image/png")


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def storing_client(environment: WorkflowEnvironment, folder: Path) -> Client:
    settings = environment.client.config(active_config=True)
    settings["data_converter"] = data_converter(storage=folder.as_uri())
    return Client(**settings)


@pytest.fixture
async def stage(
    short_histories: WorkflowEnvironment, task_queue: str, tmp_path: Path
) -> AsyncIterator[Stage]:
    stage = Stage(storing_client(short_histories, tmp_path), task_queue)
    yield stage
    if any(files(tmp_path)):
        await stage.replay()


async def history_bytes(stage: Stage, run: RunHandle) -> int:
    sizes = 0
    for link in await links(stage.client, run.id):
        handle = stage.client.get_workflow_handle(run.id, run_id=link.run_id)
        sizes += (
            await handle.describe()
        ).raw_description.workflow_execution_info.history_size_bytes
    return sizes


async def test_values_of_three_megabytes(stage: Stage, scripted: Scripted, tmp_path: Path) -> None:
    seed = [*QUESTION, Message.user(noise(LARGE, "seed"))]
    names = [[f"{number}_{index}" for index in range(2)] for number in range(6)]
    script = [
        *[asks(*[call("draw", name, text=name) for name in pair]) for pair in names],
        says("done"),
    ]
    model, other = scripted(script), scripted(script)
    expected = await run_in_process(scripted_agent(other, ["draw"]), [draw], seed)
    async with stage.worker([draw]):
        run = await stage.start(scripted_agent(model, ["draw"]), seed)
        result = await run.result()
    assert portable(result.messages) == portable(expected.messages)
    assert fingerprints(model) == fingerprints(other)
    assert len(await links(stage.client, run.id)) >= 3
    assert await history_bytes(stage, run) < 600_000
    assert sum(file.stat().st_size for file in files(tmp_path)) > 15_000_000
    assert await get_run(stage.client, run.id).messages() == result.messages


async def test_a_result_that_cannot_be_stored_is_an_unknown_outcome_and_holds_the_run(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    """The tool has run: it is not run again, the reason is the true one, and readers of the run do
    not mind.
    """
    executions: list[str] = []

    @tool
    def draw_once(text: str = "") -> ImagePart:
        """Draw."""
        executions.append(text)
        return draw(text)

    (tmp_path / "runs").write_text("in the way of the folder")
    async with stage.worker({"draw": draw_once}):
        run = await stage.start(
            scripted_agent(scripted([asks(call("draw", text="x")), says("I see.")]), ["draw"]),
            on_failure="hold",
        )
        await wait_for(lambda: is_held(run))
        (held,) = (await run.status()).held
        assert (held.reason, held.kind) == ("server", "not_stored")
        assert f"can't be stored in {str(tmp_path)!r} (PERDURE_STORAGE)" in held.why
        assert [each.type for each in await run.events()][-1] == "held"
        (tmp_path / "runs").unlink()
        await run.go_on()
        result = await run.result()
    assert executions == ["x"]
    told = result.messages[-2].text
    assert "can't be stored" in told


async def test_readers_store_nothing(stage: Stage, scripted: Scripted, tmp_path: Path) -> None:
    """What a reader replays, such as that of `status` and `show`, is not written again where it is
    gone.
    """
    script = [asks(call("draw", text="x")), says("I see.")]
    async with stage.worker([draw]):
        run = await stage.start(
            scripted_agent(scripted(script), ["draw"]), [Message.user(noise(LARGE, "seed"))]
        )
        await run.result()
    before = {file: file.stat().st_mtime_ns for file in files(tmp_path)}
    assert before
    assert await run.trace()
    assert await run.events()
    assert {file: file.stat().st_mtime_ns for file in files(tmp_path)} == before


async def test_an_image_of_three_megabytes_in_a_session(
    short_histories: WorkflowEnvironment, task_queue: str, scripted: Scripted, tmp_path: Path
) -> None:
    """Without a storage there is no place for it; with one, a message has up to 6 MiB."""
    session = SessionStage(storing_client(short_histories, tmp_path), task_queue, scripted(talk))
    image = ImagePart(source=noise(LARGE, "seed"), mediaType="image/png")
    async with session.worker():
        await session.start()
        for text, parts in (("see", [image]), ("two", []), ("three", [])):
            assert await session.said(text, parts=parts) == f"re: {text}"
            await session.idle()
    assert all(image.source in str(each.body["messages"][1]) for each in session.model.requests)
    assert (await session.link()).conversation.messages[1].parts == [TextPart(value="see"), image]
    await session.replay()


async def is_held(run: RunHandle) -> bool:
    return (await run.status()).status == "held"


async def test_a_lost_value_ends_the_run(stage: Stage, scripted: Scripted, tmp_path: Path) -> None:
    run = await stage.start(
        scripted_agent(scripted([says("never")])), [Message.user(noise(LARGE, "seed"))]
    )
    for file in files(tmp_path):
        file.unlink()
    async with stage.worker():
        with pytest.raises(RunError, match="is gone") as raised:
            await run.result()
    assert raised.value.kind == "storage"
    assert raised.value.messages == []


async def test_a_reader_without_the_storage(
    stage: Stage, scripted: Scripted, short_histories: WorkflowEnvironment
) -> None:
    async with stage.worker():
        run = await stage.start(
            scripted_agent(scripted([says("done")])), [Message.user(noise(LARGE, "seed"))]
        )
        await run.result()
    with pytest.raises(ConfigurationError, match="set PERDURE_STORAGE to its value"):
        await get_run(short_histories.client, run.id).messages()


async def test_a_worker_without_the_storage_leaves_the_run_to_one_that_has_it(
    stage: Stage, scripted: Scripted, short_histories: WorkflowEnvironment
) -> None:
    run = await stage.start(
        scripted_agent(scripted([says("done")])), [Message.user(noise(LARGE, "seed"))]
    )
    unaware = Stage(short_histories.client, stage.task_queue)
    async with unaware.worker(max_cached_workflows=0):
        handle = stage.client.get_workflow_handle(run.id)
        await wait_for(lambda: _has_failed_a_task(handle))
    async with stage.worker():
        assert (await run.result()).output == "done"


async def _has_failed_a_task(handle: object) -> bool:
    history = [event async for event in handle.fetch_history_events()]  # type: ignore[attr-defined]
    return any(event.HasField("workflow_task_failed_event_attributes") for event in history)
