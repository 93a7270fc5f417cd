"""`perdure schedule …`: runs that start by themselves."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Annotated, Any, Literal

import typer
from temporalio.client import Client

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
from . import shared_options as options
from .agent_file import load_checked, read_deps, read_inputs
from .command import execute
from .console import answer, say
from .problems import UsageProblem
from .run_options import CommandWithRunOptions, chosen_fields, run_options
from .server_connection import connect_to_server
from .shared_options import DEFAULT_QUEUE
from .worker_inside import worker_command

Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

schedule = typer.Typer(
    name="schedule",
    help="Start runs on a schedule: at times, or at intervals.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    add_completion=False,
)


@schedule.command(cls=CommandWithRunOptions)
def create(
    context: typer.Context,
    name: Name,
    agent_file: options.AgentFile,
    cron: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'M H D MONTH WEEKDAY'", help="When, such as '0 7 * * 1'; repeatable."
        ),
    ] = None,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="How often: 90s, 15m, 1h, 2d.")
    ] = None,
    timezone: Annotated[
        str, typer.Option(metavar="ZONE", help="Of --cron, such as Europe/Berlin.")
    ] = "UTC",
    overlap: Annotated[
        Literal["skip", "buffer", "buffer-all", "cancel", "terminate", "allow"],
        typer.Option(
            help=(
                "If the run before is under way: skip this one, start it after, end that one, or "
                "run both."
            )
        ),
    ] = "skip",
    paused: Annotated[
        bool, typer.Option("--paused", help="Start nothing until `perdure schedule resume`.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Change the schedule of that name, if there is one.")
    ] = False,
    inputs: options.Inputs = None,
    inputs_json: options.InputsJson = None,
    deps: options.Deps = None,
    task_queue: options.TaskQueue = DEFAULT_QUEUE,
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="The tenant of the runs.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Start runs of an agent at times.

    The agent and its inputs are recorded now: after a change of the file, create it again with
    --replace. The runs have ids of the schedule's name and their time, and are executed by the
    workers of the task queue.
    """
    _require_one(cron, every)
    fields = chosen_fields(context)
    chosen = run_options(fields) if fields else None
    agent = load_checked(agent_file, elsewhere=True)
    given = read_inputs(agent, inputs or [], inputs_json)
    when = {
        "cron": cron or (),
        "every": _interval(every),
        "timezone": timezone,
        "overlap": overlap,
        "paused": paused,
    }
    more = {
        "replace": replace,
        "task_queue": task_queue,
        "options": chosen,
        "tenant": tenant,
        **read_deps(deps),
    }
    execute(_create(name, agent, given, {**when, **more}, as_json))


async def _create(
    name: str, agent: Any, inputs: JsonObject, how: JsonObject, as_json: bool
) -> None:
    async with connect_to_server() as server:
        made = await create_schedule(server.client, name, agent, inputs, **how)
        is_polled = await server.is_polled(made.task_queue)
        embedded = server.embedded is not None
    _show(made, as_json)
    if not is_polled:
        say(f"Its runs need a worker: {worker_command(made.task_queue)}", "strong")
    if embedded:
        say("They start only while the embedded server runs: perdure dev", "strong")


@schedule.command("list")
def list_(as_json: options.AsJson = False) -> None:
    """List the schedules of runs."""
    execute(_list(as_json))


async def _list(as_json: bool) -> None:
    async with connect_to_server() as server:
        found = await list_schedules(server.client)
    if as_json:
        answer([_as_json(each) for each in found])
        return
    if not found:
        say("No schedules. Make one: perdure schedule create NAME AGENT.prompty --cron '0 7 * * 1'")
    for each in found:
        answer(f"{each.name}  {each.agent}  {_when(each)}  {_next(each)}")


@schedule.command()
def show(name: Name, as_json: options.AsJson = False) -> None:
    """Show when a schedule starts runs, and which it has started."""
    execute(_read(name, as_json))


async def _read(name: str, as_json: bool) -> None:
    async with connect_to_server() as server:
        found = await get_schedule(server.client, name)
    _show(found, as_json)


@schedule.command()
def pause(
    name: Name, reason: Annotated[str, typer.Option(help="Why, for those who read it.")] = ""
) -> None:
    """Start no more runs, until it is resumed."""
    told = f"Paused {name}. Go on: {command_line('schedule resume', name)}"
    execute(_do(lambda client: pause_schedule(client, name, reason), told))


@schedule.command()
def resume(name: Name) -> None:
    """Start runs again."""
    execute(_do(lambda client: resume_schedule(client, name), f"Resumed {name}"))


@schedule.command()
def run(name: Name) -> None:
    """Start a run now, beside the usual times."""
    told = f"Started a run of {name}. See it: perdure ls --origin {shell_word(f'schedule:{name}')}"
    execute(_do(lambda client: run_schedule(client, name), told))


@schedule.command()
def delete(name: Name) -> None:
    """Forget a schedule; runs that it has started go on."""
    execute(
        _do(
            lambda client: delete_schedule(client, name),
            f"Deleted {name}. Its runs are still there.",
        )
    )


async def _do(change: Callable[[Client], Awaitable[None]], told: str) -> None:
    async with connect_to_server() as server:
        await change(server.client)
    say(told)


def _require_one(cron: list[str] | None, every: str | None) -> None:
    if bool(cron) == (every is not None):
        raise UsageProblem("expected either --cron '0 7 * * 1' or --every 1h")


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
        answer(f"under way: {id}")
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
