"""`perdure go-on`: resumes a held run, with other options if it needs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from ..client import RunHandle
from ..client.fork import other_model
from ..client.pauses import release_run
from ..commands import command_line
from ..errors import GoOnError
from ..json_types import JsonView
from ..options import CHANGED_BY_GO_ON
from ..protocol.outcome import Held, RunStatus
from ..protocol.run import GoOn
from . import shared_options as options
from .ask_person import this_user
from .command import execute, use_command_class
from .console import answer, say
from .filters import ManyCommand
from .many import selection_of
from .pause import go_on_many
from .problems import Failure
from .recorded_run import open_run
from .run_options import CommandWithRunOptions, chosen_fields, option_name, run_options


class CommandWithChanges(ManyCommand, CommandWithRunOptions):
    """A command for one run or many, with an option for each field that a held run may change."""

    fields = CHANGED_BY_GO_ON


@use_command_class(CommandWithChanges)
def go_on(
    context: typer.Context,
    id: options.OpenRunIds = None,
    with_model: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Call another model from now on: its id, or PROVIDER/ID for another provider.",
        ),
    ] = None,
    by: options.By = None,
    as_json: options.AsJson = False,
) -> None:
    """Resume a held run, or many.

    The run continues where it stopped: it repeats nothing, and retries the failed step. A run held
    at a limit needs a higher one. Held runs that it called resume too, and so do paused ones
    (`perdure pause`).
    """
    selection, fields = selection_of(context, id or []), chosen_fields(context)
    changed = {"options": run_options(fields).model_dump(include=set(fields)), "model": with_model}
    if selection.is_one:
        execute(_go_on(selection.ids[0], changed, by, as_json))
        return
    go_on = GoOn(
        options=changed["options"],
        model=with_model and other_model(with_model),
        by=by or this_user(),
    )
    execute(go_on_many(selection, go_on, as_json=as_json))


async def _go_on(id: str, changed: JsonView, by: str | None, as_json: bool) -> None:
    async with open_run(id) as (server, handle):
        is_released = await release_run(server.client, handle.id, by=by or this_user())
        status = await handle.status()
        if is_released and not status.held:
            say(
                f"Run {handle.id} is not paused any longer. Watch it: "
                f"{command_line('watch', handle.id)}"
            )
        held = {} if is_released and not status.held else _held_runs(handle, status)
        for run, why in held.items():
            await _let_go_on(
                handle if run == handle.id else handle.called(run), why, changed, by or this_user()
            )
            say(f"Run {run} goes on. Watch it: {command_line('watch', handle.id)}")
        if as_json:
            answer({"id": handle.id, "action": "go-on", "runs": list(held), **changed})


def _held_runs(handle: RunHandle, status: RunStatus) -> dict[str, list[Held]]:
    """Return the reasons why the run, and those that it called, are held, by id. Raises `Failure`
    if none is held.
    """
    held: dict[str, list[Held]] = {}
    for each in status.held:
        held.setdefault(each.run_id or handle.id, []).append(each)
    if not held:
        raise Failure(
            f"run {handle.id} is not held, so that it can't go on: its status is {status.status}. "
            f"{command_line('status', handle.id)} shows its status; perdure ls --status held lists "
            "held runs"
        )
    return held


async def _let_go_on(
    run: RunHandle, why: Sequence[Held], changed: JsonView, by: str | None
) -> None:
    try:
        await run.go_on(**changed, by=by)
    except GoOnError as error:
        used_up = [each.option for each in why if each.option]
        if error.kind != "budget" or not used_up:
            raise
        how = command_line(
            "go-on", run.id, more=" ".join(f"{option_name(name)} …" for name in used_up)
        )
        raise Failure(f"{error}. Type: {how}") from error
