"""What models, tools and strangers write does nothing to the terminal, nor to the shell into which
it is pasted.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.cli.command import JsonFormatter, TextFormatter
from perdure.commands import command_line

from ..support.command_line import AGENT, Cli
from .agent.hostile import ACTS

ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
HOSTILE = ("run", "hostile.prompty", "--tools", "hostile.py")


def a_run_id() -> str:
    return f"-{uuid.uuid4()} $(touch owned) ' \x1b[2J\u202e"


@pytest.fixture(scope="module")
async def done(cli: Cli) -> str:
    run_id = a_run_id()
    finished = await cli(*HOSTILE, "--scripted", "hostile.py:script", f"--id={run_id}", "--stream")
    assert finished.code == 0, finished.stderr
    assert finished.stdout == f"answer {ACTS}.\n"
    assert not ACTING.search(finished.stderr)
    return run_id


@pytest.fixture(scope="module")
async def waiting(cli: Cli) -> AsyncIterator[str]:
    run_id = a_run_id()
    run = await cli.start(*HOSTILE, "--scripted", "hostile.py:paying", f"--id={run_id}")
    await run.says("perdure deny")
    assert not ACTING.search("".join(run.lines))
    yield run_id
    run.process.kill()


@pytest.mark.parametrize(
    "command",
    [
        *("watch -- ID", "watch --json -- ID", "result --json -- ID", "show -- ID"),
        *("show --json -- ID", "status -- ID", "status --json -- ID", "events -- ID"),
        *(
            "events --json -- ID",
            "messages -- ID",
            "messages --json -- ID",
            "export -- ID",
            "trace -- ID",
        ),
        *(
            "trace --json --content -- ID",
            "result --call=CALL --json -- ID",
            "result --call none -- ID",
        ),
        *(
            "steer -- ID TEXT",
            "cancel -- ID",
            "rerun --json --max-llm-retries 1 -- ID",
            "resume -- ID",
            "fork --at 9 -- ID",
        ),
        *(
            "approve -- ID",
            "deny -- ID CALL",
            "answer -- ID CALL TEXT",
            "ls --limit 100",
            "ls --limit 100 --json",
        ),
        *(
            "ls --sessions",
            "chat --session=ID -m TEXT",
            "fork --steer=TEXT -d -- ID",
            "run -- ID",
            "export -- noneID",
        ),
        *("validate hostile.prompty", "validate hostile.prompty --show-request"),
        *("schedule show -- ID", "worker --tools TEXT"),
    ],
)
async def test_commands_about_a_run_that_has_ended(cli: Cli, done: str, command: str) -> None:
    await _acts_on_nothing(cli, done, command)


@pytest.mark.parametrize(
    "command",
    [
        *("status -- ID", "status --json -- ID", "show -- ID", "show --json -- ID", "events -- ID"),
        *(
            "trace -- ID",
            "messages -- ID",
            "ls --waiting",
            "ls --waiting --json",
            "approve -- ID none",
        ),
    ],
)
async def test_commands_about_a_run_that_waits(cli: Cli, waiting: str, command: str) -> None:
    await _acts_on_nothing(cli, waiting, command)


async def _acts_on_nothing(cli: Cli, run_id: str, command: str) -> None:
    """What the command prints has no control character, but for the exact answer, which is for
    pipes.
    """
    words = {"ID": run_id, "CALL": f"a{ACTS}", "TEXT": f"text {ACTS}"}
    filled = [re.sub("ID|CALL|TEXT", lambda name: words[name[0]], word) for word in command.split()]
    finished = await cli(*filled)
    printed = finished.stdout.replace(f"answer {ACTS}.\n", "answer") + finished.stderr
    assert printed
    assert not ACTING.search(printed)
    assert "Traceback" not in finished.stderr


def test_a_command_gets_what_it_names() -> None:
    for arguments in (
        ["a b", "c'd"],
        ["$(touch owned)", "`x`"],
        ["\x1b[2J\u202e", "é\\n\n\t'"],
        ["-x", "--by=me"],
    ):
        line = command_line("approve", *arguments, more="--reason …")
        assert not ACTING.search(line)
        script = (
            f"perdure() {{ {sys.executable} -c 'import json, sys; print(json.dumps(sys.argv[1:]))' "
            f'"$@"; }}; {line}'
        )
        got = json.loads(
            subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout
        )
        assert [word for word in got if word not in ("--", "--reason", "…")] == [
            "approve",
            *arguments,
        ]


@pytest.mark.parametrize("formatter", [TextFormatter("%(message)s"), JsonFormatter()])
def test_a_log_line(formatter: logging.Formatter) -> None:
    record = logging.LogRecord("perdure", logging.INFO, "", 0, f"said {ACTS}", None, None)
    record.exc_text = f"Traceback {ACTS}"
    assert not ACTING.search(formatter.format(record))


async def test_an_answer_on_a_terminal(cli: Cli, done: str) -> None:
    reading, writing = os.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perdure.cli", "result", "--", done),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=writing,
        cwd=AGENT,
        env=cli.environment,
    )
    assert await process.wait() == 0
    os.close(writing)
    shown = os.read(reading, 10_000).decode().replace("\r\n", "\n")
    os.close(reading)
    assert "answer \\x1b]0;owned" in shown
    assert not ACTING.search(shown)


async def test_nothing_was_executed() -> None:
    assert not Path(AGENT / "owned").exists()
