"""The command line where people expect it, and beside what it can't read."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid

import pytest
from temporalio.client import Client
from temporalio.common import SearchAttributePair, TypedSearchAttributes

from perdure.payloads.converter import perdure_data_converter
from perdure.protocol.names import WORKFLOW
from perdure.protocol.search_attributes import AGENT

from ..support.command_line import Cli

AGES = ("run", "ages.prompty", "--tools", "tools.py", "--scripted", "tools.py:script")


def python_m_perdure(*arguments: str, **environment: str) -> str:
    command = [sys.executable, "-m", "perdure", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_a_module() -> None:
    assert python_m_perdure("--version").strip()


@pytest.mark.parametrize("command", [(), ("run",), ("ls",)])
async def test_h_is_help(cli: Cli, command: tuple[str, ...]) -> None:
    short, long = await asyncio.gather(cli(*command, "-h"), cli(*command, "--help"))
    assert (short.code, short.stdout) == (0, long.stdout)
    assert "Usage: perdure" in long.stdout


def test_shells_complete_commands_and_options() -> None:
    def completed(line: str) -> list[str]:
        words = line.split(" ")
        asked = {
            "_PERDURE_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        }
        return [word.removeprefix("plain,") for word in python_m_perdure(**asked).split()]

    assert sorted(completed("perdure re")) == ["rerun", "result", "resume"]
    assert "--max-iterations" in completed("perdure run --max-it")


async def test_an_input_from_stdin(cli: Cli) -> None:
    run = await cli.start(*AGES, "--input", "person=@-", "--quiet", stdin=asyncio.subprocess.PIPE)
    stdout, stderr = await run.process.communicate(b"Ann")
    assert (run.process.returncode, stdout) == (0, b"Ann is 30.\n"), stderr


async def test_a_run_that_cannot_be_decoded_is_listed(cli: Cli, client: Client) -> None:
    """Its memo is encrypted, or made by another program."""
    id = f"foreign-{uuid.uuid4()}"
    payload = perdure_data_converter.payload_converter.to_payloads(["secret"])[0]
    payload.metadata["encoding"] = b"binary/encrypted"
    await client.start_workflow(
        WORKFLOW,
        {},
        id=id,
        task_queue=id,
        memo={"agent": payload},
        search_attributes=TypedSearchAttributes([SearchAttributePair(AGENT, "foreign")]),
    )
    listed = await cli("ls", "--limit", "1000")
    assert listed.code == 0, listed.stderr
    [row] = [line for line in listed.stdout.splitlines() if line.startswith(id)]
    assert "foreign" in row.removeprefix(id)
    assert "1 run can't be read: another program made them" in listed.stderr
    await client.get_workflow_handle(id).terminate()


INTERRUPTED_AT_AN_IMPORT = """
import os, signal, sys
from perdure.cli import main

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == at:
            os.kill(os.getpid(), signal.SIGINT)

at = sys.argv.pop(1)
sys.meta_path.insert(0, Interrupts())
main()
"""


@pytest.mark.parametrize(
    "at", ["perdure.cli.entry", "perdure.errors", "click", "perdure.cli.ls", "temporalio.client"]
)
def test_an_interrupt_while_it_imports_is_no_traceback(at: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED_AT_AN_IMPORT, at, "ls"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
