"""The log of an embedded server, read for the reason why the server has ended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

TAIL_LINES = 15
BEFORE_CRASH_LINES = 5
SHOWN_CHARS = 500
CRASHES = ("panic:", "fatal error:")
"""How Go begins to say why a program crashed. What follows is a trace of every goroutine, often thousands of lines."""


def log_of(folder: Path) -> Path:
    """The log of the server that runs or ran last; earlier ones are beside it, with `.1` for the last one before."""
    return folder / "server.log"


def end_of_log(folder: Path) -> str:
    """The last lines that say something; "" when there are none. Never raises for what is in the file."""
    log = log_of(folder)
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(line[:SHOWN_CHARS] for line in _meaningful([line for line in lines if line.strip()]))


def _meaningful(lines: Sequence[str]) -> Sequence[str]:
    crash = next((index for index, line in enumerate(lines) if line.startswith(CRASHES)), None)
    if crash is None:
        return lines[-TAIL_LINES:]
    trace = next((index for index in range(crash, len(lines)) if lines[index].startswith("goroutine ")), len(lines))
    return lines[max(0, crash - BEFORE_CRASH_LINES) : min(trace, crash + TAIL_LINES)]
