"""What every test may ask for: one dev server per session, a client, a task queue of its own."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from perdure.client import connect
from perdure.client.embedded.launch import FAIR, FEW_LARGE_UPDATES
from perdure.prompty.worker_limits import OPEN
from perdure.testing import ScriptedModel
from perdure.tools import clear_tools

from .support.agents import Scripted
from .support.browser import browser as browser
from .support.browser import page as page
from .support.command_line import cli as cli
from .support.command_line import embedded as embedded
from .support.command_line import tmux as tmux
from .support.commands import forker
from .support.dev_server import server_in_memory
from .support.stage import Stage

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in a shell's background job. Processes of the tests are sent SIGINT, and would ignore it,
    # too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.update(OPEN.as_environment())
"""The agents of the tests are the tests' own; those of limits say others."""
os.environ |= {"GOGC": "400", "GODEBUG": "adaptivestackstart=1"}
"""Temporal's servers look for garbage more rarely, and begin threads with the stack that those
before them needed."""
gc.set_threshold(20_000, 10, 10)
"""Garbage is looked for more rarely: with Python's 700 objects, that is a thirteenth of a test
process's time."""
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "support" / "nobody.pem")
"""The one authority that HTTP clients know, whose key nobody has: to read a system's 140 takes each
of them 30 ms."""

SHORT_RETENTION = (
    'system.namespaceMinRetentionLocal="1s"',
    'history.retentionTimerJitterDuration="0s"',
)
"""Dynamic configuration of a server that takes a retention of less than an hour, and keeps to
it."""


def pytest_collection_finish() -> None:
    """What is imported and collected stays: no collection of garbage looks through it again."""
    clear_tools()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _rest_of_a_module() -> Iterator[None]:
    """A process has one registry of tools, and no module's are those of the next one, whichever
    that is.

    What else outlives a module stays as it is: to look through all of it took longer than a
    workflow's step may, 2 s.
    """
    yield
    clear_tools()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
async def server() -> AsyncIterator[WorkflowEnvironment]:
    """A real Temporal dev server, in memory, with perdure's search attributes registered; or the
    server that the environment names, such as a cluster (`make cluster-test`).
    """
    if named := os.environ.get("PERDURE_TESTS_SERVER"):
        yield WorkflowEnvironment.from_client(await connect(named))
        return
    settings = (
        FAIR,
        FEW_LARGE_UPDATES,
        *SHORT_RETENTION,
        "frontend.WorkflowTimeSkippingEnabled=true",
    )
    async with server_in_memory(*settings) as environment:
        yield environment


@pytest.fixture(scope="session", autouse=True)
async def _forked_commands() -> AsyncIterator[None]:
    """Commands that tests have started end with the session."""
    yield
    await forker.close()


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """A test that sets up logging, as the command line does, does so for itself alone."""
    root, named = (
        logging.getLogger(),
        [logging.getLogger(name) for name in ("perdure", "temporalio")],
    )
    before = [
        (logger, logger.level, logger.propagate, logger.handlers[:]) for logger in (root, *named)
    ]
    yield
    for logger, level, propagate, handlers in before:
        logger.setLevel(level)
        logger.propagate = propagate
        logger.handlers[:] = handlers


@pytest.fixture(autouse=True)
def _stdout_as_it_was() -> Iterator[None]:
    """A test that runs a part of the command line in this process takes stdout from nobody who
    comes after it.
    """
    before = sys.stdout
    yield
    if console := sys.modules.get("perdure.cli.console"):
        console.give_stdout_back()
    sys.stdout = before


@pytest.fixture
def client(server: WorkflowEnvironment) -> Client:
    """A client of the session's server with perdure's data converter."""
    return server.client


@pytest.fixture
def address(server: WorkflowEnvironment) -> str:
    """`host:port` of the session's server, for processes that connect by themselves."""
    return server.client.service_client.config.target_host


@pytest.fixture
def task_queue() -> str:
    """A task queue that no other test uses."""
    return f"test-{uuid.uuid4()}"


@pytest.fixture
async def stage(client: Client, task_queue: str) -> AsyncIterator[Stage]:
    """Runs on a queue of their own; at the end of the test, what they recorded is replayed."""
    stage = Stage(client, task_queue)
    yield stage
    await stage.replay()


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    """Makes scripted models that end with the test."""
    with ExitStack() as models:
        yield lambda script: models.enter_context(ScriptedModel(script))
