"""`perdure …` as a process, on the session's server or with an embedded one."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from temporalio.testing import WorkflowEnvironment

from .commands import ForkedCommand, forker
from .tmux import Tmux, tmux_server

AGENT = Path(__file__).parents[1] / "cli" / "agent"
SECONDS = 60


@dataclass
class Finished:
    """What a command left behind."""

    code: int
    stdout: str
    stderr: str


@dataclass
class Started:
    """A command that runs; what it writes to stderr is collected while it does."""

    process: asyncio.subprocess.Process | ForkedCommand
    lines: list[str] = field(default_factory=list)

    async def says(self, text: str) -> str:
        """The first line on stderr, from here on, that contains the text."""
        assert self.process.stderr
        async with asyncio.timeout(SECONDS):
            while line := (await self.process.stderr.readline()).decode():
                self.lines.append(line)
                if text in line:
                    return line
        raise AssertionError(f"ended without saying {text!r}: {''.join(self.lines)}")

    async def finish(self, signal_number: signal.Signals | None = None) -> Finished:
        """Wait for the end, after sending the signal if one is given."""
        if signal_number is not None:
            self.process.send_signal(signal_number)
        ending = asyncio.ensure_future(self.process.communicate())
        if not (await asyncio.wait([ending], timeout=SECONDS))[0]:
            self.process.send_signal(
                signal.SIGABRT
            )  # a forked one then writes where its threads were
            await asyncio.wait([ending], timeout=10)
            where = (
                ending.result()[1].decode() if ending.done() else "its end was not told"
            ) or "nothing on stderr"
            raise AssertionError(f"it has not ended in {SECONDS} s: {''.join(self.lines)}{where}")
        stdout, stderr = ending.result()
        assert self.process.returncode is not None
        return Finished(
            self.process.returncode, stdout.decode(), "".join(self.lines) + stderr.decode()
        )


class Cli:
    """Runs commands, in the folder of the test's agent unless another one is given."""

    def __init__(self, environment: dict[str, str], folder: Path = AGENT) -> None:
        self.environment = environment
        self._folder = folder
        self._processes: list[asyncio.subprocess.Process | ForkedCommand] = []

    async def start(self, *arguments: str, stdin: int = asyncio.subprocess.DEVNULL) -> Started:
        """A command that has started."""
        if forker.can(self.environment):
            forked = await forker.command(arguments, self._folder, self.environment, stdin)
            self._processes.append(forked)
            return Started(forked)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "perdure.cli", *arguments),
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self._folder,
            env=self.environment,
        )
        self._processes.append(process)
        return Started(process)

    async def __call__(self, *arguments: str) -> Finished:
        return await (await self.start(*arguments)).finish()

    async def close(self) -> None:
        for process in self._processes:
            if isinstance(process, ForkedCommand):
                await process.close()
            elif process.returncode is None:
                process.kill()
                await process.communicate()


def clean_environment(home: Path) -> dict[str, str]:
    """This process's environment without servers, keys and settings; the data folder is `home`."""
    dropped = ("TEMPORAL_", "PERDURE_", "OPENAI_", "ANTHROPIC_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return {**kept, "PERDURE_HOME": str(home), "TEMPORAL_CONFIG_FILE": str(home / "none.toml")}


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Cli]:
    """Commands without a server in their environment."""
    commands = Cli(clean_environment(tmp_path))
    yield commands
    await commands.close()


@pytest.fixture(scope="session")
async def cli(
    server: WorkflowEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Cli]:
    """Commands on the session's server."""
    address = server.client.service_client.config.target_host
    commands = Cli(
        {**clean_environment(tmp_path_factory.mktemp("home")), "TEMPORAL_ADDRESS": address}
    )
    yield commands
    await commands.close()


@pytest.fixture
def tmux(cli: Cli) -> Iterator[Tmux]:
    """Terminals in which commands are typed and seen."""
    with tmux_server(cli.environment) as server:
        yield server
