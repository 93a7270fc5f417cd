"""`perdure result`: wait for a run and print its answer."""

from __future__ import annotations

from typing import Annotated

import typer

from ..excerpt import counted
from . import options
from .console import answer, say
from .follow import follow as follow_run
from .problems import DONE
from .running import execute
from .session import open_run
from .to_the_end import follow_to_the_end
from .waiting import waiting_shown


def result(
    id: options.RunId,
    as_json: options.AsJson = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show what the run does, on stderr.")] = False,
    call: Annotated[
        str | None, typer.Option("--call", metavar="CALL", help="Print the result of this tool call instead, whole.")
    ] = None,
    iteration: Annotated[
        int | None, typer.Option("--iteration", metavar="N", help="The call's iteration, if several have that id.")
    ] = None,
) -> None:
    """Wait for a run and print its answer; or print the result of one of its tool calls."""
    if call is not None:
        execute(_tool_result(id, call, iteration, as_json=as_json))
    elif iteration is not None:
        raise typer.BadParameter("goes with --call", param_hint="--iteration")
    else:
        execute(_result(id, as_json=as_json, is_watched=follow))


async def _result(run_id: str, *, as_json: bool, is_watched: bool) -> int:
    async with open_run(run_id) as (session, handle):
        if is_watched:
            return await follow_to_the_end(session, handle, quiet=False, as_json=as_json)
        return await follow_run(session, handle, quiet=True, as_json=as_json, tells_busy=True)


async def _tool_result(run_id: str, call_id: str, iteration: int | None, *, as_json: bool) -> int:
    async with open_run(run_id) as (_, handle):
        with waiting_shown():
            found = await handle.tool_result(call_id, iteration=iteration)
    if as_json:
        answer(found.model_dump(mode="json", by_alias=True))
        return DONE
    answer(found.text, exact=True)
    if media := [part for part in found.parts if part.kind != "text"]:
        say(f"{counted(len(media), 'part')} besides the text: --json has all", "faint")
    return DONE
