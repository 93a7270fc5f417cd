"""`perdure result`, `messages` and `watch`: read a run's answer, its conversation, its progress."""

from __future__ import annotations

import click

from ..client import RunHandle
from ..events import TERMINAL_EVENTS, as_changes
from ..messages import Message
from ..text import count_of
from .ask_person import waiting_lines
from .console import answer, describe_call, say, to_json
from .follow import follow, follow_to_the_end
from .given import Given
from .problems import DONE, FAILED
from .recorded_run import open_run, read_recorded, waiting_shown
from .run import describe_model
from .server_connection import ServerConnection


async def result(given: Given) -> int:
    """Print the run's answer once it ends, or a tool call's result; return the exit code."""
    if given.iteration is not None and given.call is None:
        raise click.BadParameter("goes with --call", param_hint="--iteration")
    async with open_run(given.id) as (server, handle):
        if given.call is not None:
            return await _tool_result(handle, given)
        if given.follow:
            return await follow_to_the_end(server, handle, quiet=False, as_json=given.as_json)
        return await follow(server, handle, quiet=True, as_json=given.as_json, tells_busy=True)


async def _tool_result(handle: RunHandle, given: Given) -> int:
    with waiting_shown():
        found = await handle.tool_result(given.call, iteration=given.iteration)
    if given.as_json:
        answer(found.model_dump(mode="json", by_alias=True))
        return DONE
    answer(found.text, exact=True)
    if media := [part for part in found.parts if part.kind != "text"]:
        say(f"{count_of(len(media), 'part')} besides the text: --json has all", "faint")
    return DONE


async def messages(given: Given) -> None:
    """Print the conversation, and the calls that wait for a person."""
    async with open_run(given.id) as (_, handle):
        with waiting_shown():
            found = await handle.messages()
            status = await handle.status()
    if given.as_json:
        answer([message.model_dump(mode="json", by_alias=True) for message in found])
        return
    for message in found:
        answer(_paragraph(message))
    for line in waiting_lines(handle.id, status.pending_approvals):
        answer(line)
    say(count_of(len(found), "message"), "faint")


def _paragraph(message: Message) -> str:
    calls = "".join(
        f"\n  → {describe_call(call.name, call.arguments)}" for call in message.tool_calls
    )
    others = "".join(f"\n  [{part.kind}]" for part in message.parts if part.kind != "text")
    return f"[{message.role}] {message.text}{others}{calls}\n"


async def watch(given: Given) -> int:
    """Show the run until it ends; return the exit code."""
    async with open_run(given.id) as (server, handle):
        status = await handle.status() if given.from_now else None
        # A run that has ended is shown by its last event.
        after = status.last_seq - (status.status in ("done", "failed")) if status else 0
        if given.as_json:
            return await _write_events(handle, after)
        await _announce(server, handle)
        return await follow_to_the_end(server, handle, quiet=False, as_json=False, after=after)


async def _announce(server: ServerConnection, handle: RunHandle) -> None:
    agent = (await read_recorded(server.client, handle.id)).input.agent
    name = agent.name or "without a name"
    say(f"Run {handle.id}: agent {name}, {describe_model(agent)}, {server.place}", "strong")


async def _write_events(handle: RunHandle, after: int) -> int:
    code = FAILED
    with waiting_shown():
        async for event in handle.stream(after, children=True):
            answer(to_json(as_changes(event), indent=None))
            if event.run_id is None and event.type in TERMINAL_EVENTS:
                code = DONE if event.type == "done" else FAILED
    return code
