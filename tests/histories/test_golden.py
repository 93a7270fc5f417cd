"""Every golden history replays: a change that breaks running workflows fails here
(docs/internals/changing-the-loop.md).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from perdure.payloads.converter import perdure_data_converter
from perdure.workflows.agent_run import AgentRun
from perdure.workflows.session.session import Session

from .golden import FOLDER, Golden, id_of, outline
from .scenarios import SCENARIOS
from .session_scenarios import SESSION_SCENARIOS

RECORDED = sorted(FOLDER.glob("*.json"))
SANDBOXED = ("tools-1", "session_turns-1")
"""Enough to see that the workflow's modules do nothing that Temporal's sandbox forbids; each takes
its time."""


async def failures(paths: Iterable[Path], runner: WorkflowRunner) -> dict[str, Exception]:
    """Workflow id → why the history does not replay."""
    goldens = {path.stem: Golden.model_validate_json(path.read_bytes()) for path in paths}
    histories = [
        WorkflowHistory.from_json(id_of(golden.history), golden.history)
        for golden in goldens.values()
    ]
    replayer = Replayer(
        workflows=[AgentRun, Session],
        data_converter=perdure_data_converter,
        unsandboxed_workflow_runner=runner,
    )
    async with replayer.workflow_replay_iterator(_each(histories)) as results:
        return {
            result.history.workflow_id: result.replay_failure
            async for result in results
            if result.replay_failure
        }


async def _each(histories: Iterable[WorkflowHistory]) -> AsyncIterator[WorkflowHistory]:
    for history in histories:
        yield history


async def test_all_replay() -> None:
    assert await failures(RECORDED, UnsandboxedWorkflowRunner()) == {}


async def test_they_replay_in_the_sandbox() -> None:
    assert (
        await failures([FOLDER / f"{name}.json" for name in SANDBOXED], SandboxedWorkflowRunner())
        == {}
    )


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
async def test_gives_the_events_that_it_gave(path: Path) -> None:
    golden = Golden.model_validate_json(path.read_bytes())
    assert await outline(golden.history) == golden.events


def test_every_scenario_is_recorded() -> None:
    assert {path.stem.rpartition("-")[0] for path in RECORDED} == {*SCENARIOS, *SESSION_SCENARIOS}
