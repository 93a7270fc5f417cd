"""`perdure watch`: show what any run does, from its beginning to its end, and print its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import options
from .console import answer, say, to_json
from .problems import DONE, FAILED
from .running import execute
from .session import Session, open_run
from .to_the_end import follow_to_the_end
from .waiting import waiting_shown

if TYPE_CHECKING:
    from ..client import RunHandle


def watch(id: options.RunId, as_json: options.AsJson = False) -> None:
    """Show what a run does until it ends, and print its answer.

    Any run, wherever its workers are; one that is under way or has ended is shown from its beginning. On a terminal,
    waiting approvals and questions can be answered here, and Ctrl-C asks whether to detach, cancel or steer.

    As JSON, its events, one per line, with those of the runs that it calls.
    """
    execute(_watch(id, as_json))


async def _watch(run_id: str, as_json: bool) -> int:
    async with open_run(run_id) as (session, handle):
        if as_json:
            return await _write_events(handle)
        await _announce(session, handle)
        return await follow_to_the_end(session, handle, quiet=False, as_json=False)


async def _announce(session: Session, handle: RunHandle) -> None:
    from .recorded import read_recorded

    recorded = await read_recorded(session.client, handle.id)
    agent, model = recorded.input.agent, recorded.input.agent.model
    named = f"model {model.id} of {model.provider_key}" if model else "no model declared"
    say(f"Run {handle.id}: agent {agent.name or 'without a name'}, {named}, {session.place}", "strong")


async def _write_events(handle: RunHandle) -> int:
    from ..events import TERMINAL_EVENTS, as_changes

    code = FAILED
    with waiting_shown():
        async for event in handle.stream(children=True):
            answer(to_json(as_changes(event), indent=None))
            if event.run_id is None and event.type in TERMINAL_EVENTS:
                code = DONE if event.type == "done" else FAILED
    return code
