"""The sessions whose histories are kept, with those of their turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from temporalio.client import Client, WorkflowHistory

from perdure import GuardrailResult, Guardrails
from perdure.history.session import SessionLink
from perdure.messages import Message
from perdure.testing import ScriptedModel

from ..support.sessions import SessionStage, setup_of, talk

Play = Callable[[Client, str], Awaitable[SessionStage]]
SESSION_SCENARIOS: dict[str, Play] = {}
"""Name → the scenario."""


def scenario(play: Play) -> Play:
    SESSION_SCENARIOS[play.__name__] = play
    return play


@scenario
async def session_turns(client: Client, name: str) -> SessionStage:
    """A turn that is steered while another message waits, and one that begins with what was not
    read.
    """
    with ScriptedModel(talk) as model:
        session = SessionStage(client, name, model)
        async with session.worker():
            await session.start(setup_of(session.agent, max_iterations=1, on_limit="partial"))
            await session.said("one")
            await session.send("hold")
            await asyncio.wait_for(session.gate.reached.wait(), 20)
            await session.send("too late")
            await session.send("queued", while_busy="queue")
            session.gate.open.set()
            await session.idle()
            await session.send("fail")
            await session.idle()
    return session


@scenario
async def session_by_reference(client: Client, name: str) -> SessionStage:
    with ScriptedModel(talk) as model:
        session = SessionStage(client, name, model)
        async with session.worker():
            await session.start()
            await session.said("long 8500")
            await session.said("two")
            await session.idle()
    return session


@scenario
async def session_with_a_refused_turn(client: Client, name: str) -> SessionStage:
    def no_secret(messages: list[Message]) -> GuardrailResult:
        return GuardrailResult(allowed="secret" not in messages[-1].text, reason="a secret")

    with ScriptedModel(talk) as model:
        session = SessionStage(client, name, model)
        async with session.worker(guardrails={"discreet": Guardrails(input=no_secret)}):
            await session.start(setup_of(session.agent, guardrails="discreet"))
            await session.send("my secret")
            await session.idle()
            await session.said("two")
            await session.idle()
    return session


async def histories_of(session: SessionStage) -> list[WorkflowHistory]:
    """Those of the session, link by link, and then those of its turns."""
    links = [link for link in await session.links() if _has_begun(link)]
    turns = [turn for link in links for turn in link.turns]
    handles = [
        session.client.get_workflow_handle(turn.run_id, run_id=turn.first_run_id) for turn in turns
    ]
    of_session = [WorkflowHistory(session.id, link.history) for link in links]
    return [*of_session, *[await handle.fetch_history() for handle in handles]]


def _has_begun(link: SessionLink) -> bool:
    """Return whether the link has taken a step: a history that only starts can't be replayed."""
    done = (event.HasField("workflow_task_completed_event_attributes") for event in link.history)
    return any(done)
