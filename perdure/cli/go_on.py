"""`perdure go-on`: resumes a held run, with other options if it needs them."""

from __future__ import annotations

from collections.abc import Sequence

from ..client import RunHandle
from ..client.fork import other_model
from ..client.pauses import release_run
from ..commands import command_line
from ..errors import GoOnError
from ..json_types import JsonView
from ..protocol.outcome import Held, RunStatus
from ..protocol.run import GoOn
from .ask_person import this_user
from .console import answer, say
from .given import Given, option_name
from .many import selection_of
from .pause import go_on_many
from .problems import DONE, Failure
from .recorded_run import open_run
from .run_options import run_options


async def go_on(given: Given) -> int:
    """Resume held or paused runs, one by its id with those it called; return the exit code."""
    selection, by = selection_of(given), given.by or this_user()
    options = run_options(given.options).model_dump(include=set(given.options))
    if selection.is_one:
        changed = {"options": options, "model": given.with_model}
        await _go_on_one(selection.ids[0], changed, by, given.as_json)
        return DONE
    model = given.with_model and other_model(given.with_model)
    change = GoOn(options=options, model=model, by=by)
    return await go_on_many(selection, change, as_json=given.as_json)


async def _go_on_one(id: str, changed: JsonView, by: str | None, as_json: bool) -> None:
    async with open_run(id) as (server, handle):
        is_released = await release_run(server.client, handle.id, by=by)
        status = await handle.status()
        watch = command_line("watch", handle.id)
        held: dict[str, list[Held]] = {}
        if is_released and not status.held:
            say(f"Run {handle.id} is not paused any longer. Watch it: {watch}")
        else:
            held = _held_runs(handle, status)
        for run, why in held.items():
            each = handle if run == handle.id else handle.called(run)
            await _resume(each, why, changed, by)
            say(f"Run {run} goes on. Watch it: {watch}")
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
            f"run {handle.id} is not held: its status is {status.status}. "
            f"{command_line('status', handle.id)} shows its status; perdure ls --status held lists "
            "held runs"
        )
    return held


def raised_limits(held: Sequence[Held]) -> str:
    """Return the options that raise the limits at which runs are held, with placeholders."""
    return " ".join(f"{option_name(each.option)} …" for each in held if each.option)


async def _resume(run: RunHandle, why: Sequence[Held], changed: JsonView, by: str | None) -> None:
    try:
        await run.go_on(**changed, by=by)
    except GoOnError as error:
        options = raised_limits(why)
        if error.kind != "budget" or not options:
            raise
        raise Failure(f"{error}. Type: {command_line('go-on', run.id, more=options)}") from error
