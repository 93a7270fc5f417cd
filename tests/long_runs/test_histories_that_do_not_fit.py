"""A conversation that the next link can't load holds a run and keeps a session waiting, and neither
ends for it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from temporalio.testing import ActivityEnvironment, WorkflowEnvironment
from temporalio.worker import Worker

from perdure.conversation import ConversationRef, DigestMismatchError
from perdure.protocol.activities import LOAD_PIECE, ConversationInput
from perdure.protocol.names import SESSION_WORKFLOW, WORKFLOW
from perdure.testing import asks, call, says
from perdure.worker import PerdurePlugin

from ..runs.test_holding import held
from ..support.agents import Scripted, scripted_agent
from ..support.comparison import links
from ..support.misfits import Misfits
from ..support.sessions import SessionStage
from ..support.stage import Stage
from ..support.waiting import wait_for
from .test_sessions import long_turns

ROUNDS = [asks(call("look", f"c{step}", text=str(step))) for step in range(16)]


def look(text: str = "") -> str:
    return "x" * 30_000


async def test_a_run_is_held(stage: Stage, scripted: Scripted) -> None:
    misfits, model = Misfits(LOAD_PIECE, WORKFLOW), scripted([*ROUNDS, says("done")])
    async with stage.worker({"look": look}, interceptors=[misfits]):
        run = await stage.start(
            scripted_agent(model, ["look"]), on_failure="fail", max_iterations=20
        )
        [why] = await held(run)
        assert (why.reason, why.kind) == ("server", "history")
        misfits.is_broken = False
        await run.go_on()
        assert (await run.result()).output == "done"
    assert len(model.requests) == len(ROUNDS) + 1


async def test_what_is_recorded_ahead_ends_no_run(stage: Stage, scripted: Scripted) -> None:
    """The call after it reads the history, and decides."""
    plugin = PerdurePlugin()
    async with Worker(stage.client, task_queue=stage.task_queue, plugins=[plugin]):
        run = await stage.start(scripted_agent(scripted([says("done")])))
        await run.result()
        environment = ActivityEnvironment(stage.client)
        [link] = await links(stage.client, run.id)
        environment.info = replace(
            environment.info, workflow_id=run.id, workflow_run_id=link.run_id
        )
        wrong = ConversationInput(
            conversation=ConversationRef(base=7, version=8, digest="of another", operations=[])
        )
        with pytest.raises(DigestMismatchError):
            await environment.run(plugin.runs.messages_at, wrong.conversation)
        await environment.run(plugin.activities_of_runs.record, wrong)


async def test_a_session_waits(
    short_histories: WorkflowEnvironment, task_queue: str, scripted: Scripted
) -> None:
    session = SessionStage(short_histories.client, task_queue, scripted(long_turns))
    session.gate.open.set()
    misfits = Misfits(LOAD_PIECE, SESSION_WORKFLOW)
    async with session.worker(interceptors=[misfits]):
        await session.start()
        sent = asyncio.create_task(_say(session, 6))
        await wait_for(misfits.happen)
        misfits.is_broken = False
        await sent
    assert len(await session.links()) > 1
    await session.replay()


async def _say(session: SessionStage, count: int) -> None:
    for number in range(1, count + 1):
        assert (await session.send(f"long {30_000 + number}")).turn == number
        await session.run(number).result()
        await session.idle()
