"""Whole results in long runs: after continue-as-new, on other workers, stored outside Temporal,
fifty large ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.testing import WorkflowEnvironment

from perdure.client import RunHandle, get_run
from perdure.errors import ConfigurationError
from perdure.testing import ScriptedReply, ScriptedRequest, asks, call, says

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.comparison import links
from ..support.stage import Stage
from .test_large_conversations import noise
from .test_storage import files, storing_client

TOOLS = ["find", {"name": "read_result", "kind": "builtin"}]
FOUND = noise(300_000, "found")


def find(text: str = "") -> str:
    return FOUND if not text else noise(1_000_000, text)


async def test_after_continue_as_new_and_on_another_worker(
    stage: Stage, scripted: Scripted
) -> None:
    def script(request: ScriptedRequest) -> ScriptedReply:
        if request.step == 12:
            return says("done")
        first = asks(call("find", "c"))
        return (
            first
            if not request.step
            else asks(call("read_result", f"r{request.step}", call_id="c", length=50))
        )

    async with stage.worker({"find": find}, conversation_cache_bytes=0, max_cached_workflows=0):
        run = await stage.start(scripted_agent(scripted(script), TOOLS), max_iterations=20)
        result = await run.result()
    assert len(await links(stage.client, run.id)) >= 2
    pages = tool_texts(result.messages)[1:]
    head = "[characters 0 to 50 of 300,000; the rest begins at offset 50]"
    assert pages == [f"{head}\n{FOUND[:50]}"] * 11
    assert (await get_run(stage.client, run.id).tool_result("c")).text == FOUND


async def test_more_is_kept_where_values_are_stored(
    short_histories: WorkflowEnvironment, task_queue: str, scripted: Scripted, tmp_path: Path
) -> None:
    stage, large = (
        Stage(storing_client(short_histories, tmp_path), task_queue),
        noise(5_000_000, "large"),
    )
    script = [
        asks(call("find", "c")),
        asks(call("read_result", call_id="c", offset=4_999_990)),
        says("done"),
    ]
    async with stage.worker({"find": lambda text="": large}):
        run = await stage.start(scripted_agent(scripted(script), TOOLS))
        result = await run.result()
    shown, page = (message.text for message in result.messages if message.role == "tool")
    assert len(shown) < 66_000
    assert (
        page == f"[characters 4,999,990 to 5,000,000 of 5,000,000, which is its end]\n{large[-10:]}"
    )
    assert (await run.tool_result("c")).text == large
    assert await history_bytes(stage, run) < 400_000
    assert files(tmp_path)
    with pytest.raises(ConfigurationError, match="set PERDURE_STORAGE to its value"):
        await get_run(short_histories.client, run.id).tool_result("c")
    await stage.replay()


async def test_many_results_of_a_megabyte(roomy_stage: Stage, scripted: Scripted) -> None:
    count = 8

    def script(request: ScriptedRequest) -> ScriptedReply:
        return (
            says("done")
            if request.step == count
            else asks(call("find", f"c{request.step}", text=str(request.step)))
        )

    async with roomy_stage.worker({"find": find}):
        run = await roomy_stage.start(scripted_agent(scripted(script), TOOLS), max_iterations=100)
        result = await run.result()
    assert result.output == "done"
    assert all(len(message.text) < 66_000 for message in result.messages)
    assert len(await links(roomy_stage.client, run.id)) >= count // 25
    for number in (0, count - 1):
        assert (await run.tool_result(f"c{number}")).text == noise(1_000_000, str(number))


async def history_bytes(stage: Stage, run: RunHandle) -> int:
    sizes = 0
    for link in await links(stage.client, run.id):
        handle = stage.client.get_workflow_handle(run.id, run_id=link.run_id)
        sizes += (
            await handle.describe()
        ).raw_description.workflow_execution_info.history_size_bytes
    return sizes
