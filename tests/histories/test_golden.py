"""Every golden history replays: a change that breaks running workflows fails here (docs/changing-the-loop.md)."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from perdure.converter import perdure_data_converter
from perdure.workflows.agent_run import AgentRun

from .golden import FOLDER, Golden, outline
from .scenarios import SCENARIOS

RECORDED = sorted(FOLDER.glob("*.json"))
SANDBOXED = ("tools-1", "plain_guardrails-1", "cancelled_in_a_tool-1", "compaction-1", "continued_as_new-2")
"""Enough to see that the workflow's modules do nothing that Temporal's sandbox forbids; each takes its time."""


async def replay(path: Path, runner: WorkflowRunner) -> None:
    golden = Golden.model_validate_json(path.read_bytes())
    replayer = Replayer(workflows=[AgentRun], data_converter=perdure_data_converter, unsandboxed_workflow_runner=runner)
    await replayer.replay_workflow(WorkflowHistory.from_json(path.stem, golden.history))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
async def test_replays(path: Path) -> None:
    await replay(path, UnsandboxedWorkflowRunner())


@pytest.mark.parametrize("name", SANDBOXED)
async def test_replays_in_the_sandbox(name: str) -> None:
    await replay(FOLDER / f"{name}.json", SandboxedWorkflowRunner())


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
async def test_gives_the_events_that_it_gave(path: Path) -> None:
    golden = Golden.model_validate_json(path.read_bytes())
    assert await outline(golden.history) == golden.events


def test_every_scenario_is_recorded() -> None:
    assert {path.stem.rpartition("-")[0] for path in RECORDED} == set(SCENARIOS)
