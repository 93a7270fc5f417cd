"""`perdure result`: wait for a run and print its answer."""

from __future__ import annotations

from typing import Annotated

import typer

from . import options
from .follow import follow as follow_run
from .running import execute
from .session import open_run


def result(
    id: options.RunId,
    as_json: options.AsJson = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show what the run does, on stderr.")] = False,
) -> None:
    """Wait for a run and print its answer."""
    execute(_result(id, as_json=as_json, quiet=not follow))


async def _result(run_id: str, *, as_json: bool, quiet: bool) -> int:
    async with open_run(run_id) as (session, handle):
        return await follow_run(session, handle, quiet=quiet, as_json=as_json)
