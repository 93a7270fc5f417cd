"""`perdure schedule …`: starts runs on a schedule."""

from __future__ import annotations

import re
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from ..agents import Agent
from ..client.schedules import (
    ScheduledRuns,
    create_schedule,
    delete_schedule,
    get_schedule,
    list_schedules,
    pause_schedule,
    resume_schedule,
    run_schedule,
)
from ..commands import command_line, shell_word
from ..json_types import JsonObject
from .agent_file import load_checked, read_deps, read_inputs
from .console import answer, say
from .given import Given
from .problems import UsageProblem
from .run_options import run_options
from .server_connection import connect_to_server
from .worker_inside import worker_command

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def create(given: Given) -> Coroutine[Any, Any, None]:
    """Load the agent, and create its schedule. Raises `UsageProblem`."""
    if bool(given.cron) == (given.every is not None):
        raise UsageProblem("expected either --cron '0 7 * * 1' or --every 1h")
    options = run_options(given.options) if given.options else None
    agent = load_checked(given.agent_file, elsewhere=True)
    inputs = read_inputs(agent, given.inputs, given.inputs_json)
    same = ("cron", "timezone", "overlap", "paused", "replace", "task_queue", "tenant")
    more = {
        **{name: getattr(given, name) for name in same},
        "every": _interval(given.every),
        "options": options,
        **read_deps(given.deps),
    }
    return _create(given, agent, inputs, more)


async def _create(given: Given, agent: Agent, inputs: JsonObject, more: JsonObject) -> None:
    async with connect_to_server() as server:
        made = await create_schedule(server.client, given.name, agent, inputs, **more)
        is_polled = await server.is_polled(made.task_queue)
        embedded = server.embedded is not None
    _show(made, given.as_json)
    if not is_polled:
        say(f"Its runs need a worker: {worker_command(made.task_queue)}", "strong")
    if embedded:
        say("They start only while the embedded server runs: perdure dev", "strong")


async def list_(given: Given) -> None:
    """List the schedules."""
    async with connect_to_server() as server:
        found = await list_schedules(server.client)
    if given.as_json:
        answer([_as_json(each) for each in found])
        return
    if not found:
        say("No schedules. Make one: perdure schedule create NAME AGENT.prompty --cron '0 7 * * 1'")
    for each in found:
        answer(f"{each.name}  {each.agent}  {_when(each)}  {_next(each)}")


async def show(given: Given) -> None:
    """Show a schedule."""
    async with connect_to_server() as server:
        found = await get_schedule(server.client, given.name)
    _show(found, given.as_json)


async def pause(given: Given) -> None:
    """Pause a schedule."""
    async with connect_to_server() as server:
        await pause_schedule(server.client, given.name, given.reason)
    say(f"Paused {given.name}. Resume it: {command_line('schedule resume', given.name)}")


async def change(given: Given) -> None:
    """Resume a schedule, run it now, or delete it, by the command's name."""
    name = given.name
    see = f"perdure ls --origin {shell_word(f'schedule:{name}')}"
    act, done = {
        "resume": (resume_schedule, f"Resumed {name}"),
        "run": (run_schedule, f"Started a run of {name}. See it: {see}"),
        "delete": (delete_schedule, f"Deleted {name}. Its runs are still there."),
    }[given.command]
    async with connect_to_server() as server:
        await act(server.client, name)
    say(done)


def _interval(text: str | None) -> timedelta | None:
    if text is None:
        return None
    parts = re.findall(r"(\d+)([smhdw])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageProblem(
            f"--every {text!r}: expected a number and s, m, h, d or w, such as 90s, 15m or 1h30m"
        )
    try:
        interval = timedelta(**{_UNITS[unit]: int(number) for number, unit in parts})
    except (OverflowError, ValueError) as error:
        raise UsageProblem(f"--every {text!r}: expected a shorter time") from error
    if not interval:
        raise UsageProblem(f"--every {text!r}: expected more than nothing")
    return interval


def _show(found: ScheduledRuns, as_json: bool) -> None:
    if as_json:
        answer(_as_json(found))
        return
    answer(f"{found.name}: runs of {found.agent}, {_when(found)}, task queue {found.task_queue!r}")
    answer(_next(found))
    for id in found.running:
        answer(f"open: {id}")
    for id in (id for id in found.runs if id not in found.running):
        answer(f"started: {id}")


def _as_json(found: ScheduledRuns) -> JsonObject:
    return found.model_dump(mode="json", by_alias=True)


def _when(found: ScheduledRuns) -> str:
    if found.every is not None:
        return f"every {timedelta(seconds=found.every)}"
    return f"{', '.join(found.cron)} ({found.timezone})"


def _next(found: ScheduledRuns) -> str:
    if found.paused:
        return "paused"
    return (
        f"next: {found.next[0].astimezone().strftime('%Y-%m-%d %H:%M:%S')}"
        if found.next
        else "no next time"
    )
