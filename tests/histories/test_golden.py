"""Every golden history replays: a change that breaks running workflows fails here
(docs/internals/changing-the-loop.md).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from perdure.loop.state import LOOP_VERSION
from perdure.payloads.converter import ZstdCodec, perdure_data_converter
from perdure.protocol.activities import CALL_MODEL
from perdure.protocol.names import WORKFLOW
from perdure.protocol.outcome import RunOutput
from perdure.protocol.run import RunInput
from perdure.workflows.agent_run import AgentRun
from perdure.workflows.session.session import Session

from .golden import FOLDER, Golden, id_of, outline
from .scenarios import SCENARIOS
from .session_scenarios import SESSION_SCENARIOS

RECORDED = sorted(FOLDER.glob("*/*.json"))
SANDBOXED = ("0.1/tools-1", "0.1/session_turns-1")
"""Enough to see that the workflow's modules do nothing that Temporal's sandbox forbids; each takes
its time."""


@workflow.defn(name=WORKFLOW, sandboxed=False)
class NextLoop(AgentRun):
    """A planted change, as docs/changing-the-loop.md has it: links of the next version wait before
    each iteration, those that began with this one go the older way.
    """

    loop_version = LOOP_VERSION + 1
    since = LOOP_VERSION + 1

    @workflow.init
    def __init__(self, input: RunInput) -> None:
        super().__init__(input)

    @workflow.run
    async def run(self, input: RunInput) -> RunOutput:
        return await super().run(input)

    async def _checkpoint(self) -> None:
        await super()._checkpoint()
        if self.state.input.loop_version >= self.since:
            await workflow.sleep(0.001, summary="the planted change")


@workflow.defn(name=WORKFLOW, sandboxed=False)
class CarelessLoop(NextLoop):
    """The same change, for links of every version."""

    since = 0

    @workflow.init
    def __init__(self, input: RunInput) -> None:
        super().__init__(input)

    @workflow.run
    async def run(self, input: RunInput) -> RunOutput:
        return await super().run(input)


async def failures(
    paths: Iterable[Path], runner: WorkflowRunner, run: type[AgentRun] = AgentRun
) -> dict[str, Exception]:
    """Workflow id → why the history does not replay."""
    goldens = [Golden.model_validate_json(path.read_bytes()) for path in paths]
    histories = [
        WorkflowHistory.from_json(id_of(golden.history), golden.history) for golden in goldens
    ]
    replayer = Replayer(
        workflows=[run, Session],
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


async def test_a_change_for_links_of_the_next_version_replays_those_of_this_one() -> None:
    assert await failures(RECORDED, UnsandboxedWorkflowRunner(), NextLoop) == {}


async def test_the_same_change_for_all_links_breaks_recorded_runs() -> None:
    [failure] = (
        await failures([FOLDER / "0.1/tools-1.json"], UnsandboxedWorkflowRunner(), CarelessLoop)
    ).values()
    assert isinstance(failure, workflow.NondeterminismError)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}/{path.stem}")
async def test_gives_the_events_that_it_gave(path: Path) -> None:
    golden = Golden.model_validate_json(path.read_bytes())
    assert await outline(golden.history) == golden.events


async def test_a_model_call_s_input_does_not_grow_with_the_conversation() -> None:
    sizes: list[int] = []
    for path in sorted(FOLDER.glob("0.1/continued_as_new_in_pieces-*.json")):
        golden = Golden.model_validate_json(path.read_bytes())
        for event in WorkflowHistory.from_json("any", golden.history).events:
            scheduled = event.activity_task_scheduled_event_attributes
            if scheduled.activity_type.name == CALL_MODEL:
                [payload] = await ZstdCodec().decode(scheduled.input.payloads)
                sizes.append(len(payload.data))
    rounds = [size for size in sizes if size > 1000]  # a link's first call refers to what is known
    assert len(rounds) == 13
    assert max(rounds) - min(rounds) < 20  # the digits of the conversation's version
    assert sum(rounds) > 10 * max(rounds)


def test_every_scenario_is_recorded() -> None:
    assert {path.stem.rpartition("-")[0] for path in RECORDED} == {*SCENARIOS, *SESSION_SCENARIOS}
