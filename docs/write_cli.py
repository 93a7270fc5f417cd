"""Writes docs/cli.md from the command line's own help: `make docs`. A test fails when the two
differ.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

from perdure.cli.app import ENTRIES
from perdure.cli.entry import run

PAGE = Path(__file__).with_name("cli.md")
INTRODUCTION = """\
# What can I type?

`perdure COMMAND --help` says it too; this page is written from it (`make docs`).

The answer of a command is on stdout and nothing else; progress, thinking and errors are on stderr. `--json` is for
programs. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted (a service that is sent SIGTERM ends with 0).
Control characters in what models, tools and others have written are escaped, in JSON and logs too; a run's answer is
left as it is where stdout is no terminal. Commands in messages are quoted for a shell.

The server is the one that Temporal's own configuration names (`TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`,
`TEMPORAL_API_KEY`, `TEMPORAL_TLS_…`, or a profile of `temporal.toml`), so Temporal Cloud works without code. Without
one it is the embedded server: one per data folder (`PERDURE_HOME`), shared by all perdure commands that are running,
ended with the last of them, its runs kept in a file for a year after their end (`PERDURE_RETENTION_DAYS`).

A run whose worker is gone, because its command was killed or its machine was switched off, goes on with
`perdure resume ID`. A run that has ended is the beginning of another with `perdure fork ID --steer "…"`.

`perdure --install-completion` makes the shell complete commands, options and the ids of runs, which it asks of a server
that is running. [Watching a run](watching.md) has pictures of what a terminal shows.
"""


def page() -> str:
    """The whole page, as it should be."""
    return "\n".join([INTRODUCTION, *_sections()])


def _sections(*command: str) -> Iterator[str]:
    """The command's, and those of the commands that it has."""
    text = help_of(*command)
    yield f"## {' '.join(['perdure', *command])}\n\n```text\n{text.strip()}\n```\n"
    commands = (
        re.findall(r"^  ([a-z-]+) ", text.partition("\nCommands:")[2], re.MULTILINE)
        if command
        else ENTRIES
    )
    for name in commands:
        yield from _sections(*command, name)


def help_of(*command: str) -> str:
    """What `perdure … --help` prints on 80 columns."""
    written = io.StringIO()
    with redirect_stdout(written):
        code = run([*command, "--help"])
    assert code == 0, command
    return written.getvalue()


os.environ.update(COLUMNS="80", NO_COLOR="1")
if __name__ == "__main__":
    PAGE.write_text(page())
