"""`perdure export`: prints a run's whole record."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from ..json_types import JsonObject
from ..private_files import private_opener
from . import shared_options as options
from .command import execute
from .console import answer, say, to_json
from .problems import UsageProblem
from .recorded_run import open_run


def export(
    id: options.RunId,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write to a file; default: stdout."),
    ] = None,
    children: Annotated[
        bool,
        typer.Option(
            "--children/--no-children", help="Those of the agents that it has called, too."
        ),
    ] = True,
    events: Annotated[
        bool, typer.Option("--events/--no-events", help="Include the live events.")
    ] = True,
) -> None:
    """Print a run's whole record as JSON lines.

    `perdure docs export` describes the lines. They have no secrets, but the whole conversation of
    the run.
    """
    execute(_export(id, output, children, events))


async def _export(run_id: str, output: Path | None, children: bool, events: bool) -> None:
    async with open_run(run_id) as (_, handle):
        lines = handle.export(children=children, events=events)
        if output is not None:
            say(f"{await _write(lines, output)} lines are in {output}.", "faint")
            return
        async for line in lines:
            answer(to_json(line, indent=None))


async def _write(lines: AsyncIterator[JsonObject], output: Path) -> int:
    """Write the lines to the file, which is replaced once all of them are written; return their
    number.
    """
    count = 0
    is_plain = output.is_file() or not output.exists()
    written = output.with_name(f"{output.name}.part") if is_plain else output
    try:
        with open(written, "w", encoding="utf-8", opener=private_opener) as file:
            async for line in lines:
                file.write(to_json(line, indent=None) + "\n")
                count += 1
        if is_plain:
            written.replace(output)
    except OSError as error:
        raise UsageProblem(
            f"--output {str(output)!r}: the file can't be written ({error.strerror})"
        ) from error
    finally:
        if is_plain:
            with suppress(OSError):
                written.unlink(missing_ok=True)
    return count
