"""`perdure export`: prints a run's whole record."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from ..json_types import JsonObject
from ..private_files import private_opener
from .console import answer, say, to_json
from .given import Given
from .problems import UsageProblem
from .recorded_run import open_run


async def export(given: Given) -> None:
    """Print the record, or write it to a file."""
    async with open_run(given.id) as (_, handle):
        lines = handle.export(children=given.children, events=given.events)
        if given.output is not None:
            say(f"{await _write(lines, given.output)} lines are in {given.output}.", "faint")
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
