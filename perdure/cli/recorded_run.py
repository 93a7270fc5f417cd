"""Finds a run on the server, and reads its record."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.service import RPCError, RPCStatusCode

from ..client import RunHandle, get_run, session
from ..client.reading.watch import logger
from ..commands import shell_word
from ..history.link import not_a_run, read_input
from ..protocol.names import SESSION_WORKFLOW, WORKFLOW
from ..protocol.run import RunInput
from .console import say
from .problems import Failure
from .server_connection import (
    CommandMemo,
    ServerConnection,
    connect_to_server,
    read_memo,
    run_under_way,
)


@asynccontextmanager
async def open_run(run_id: str) -> AsyncIterator[tuple[ServerConnection, RunHandle]]:
    """Connect to the server, and find the run. Raises as that and `connect_to_server` do."""
    async with connect_to_server() as server:
        yield server, await find_run(server, run_id)


async def find_run(server: ServerConnection, run_id: str) -> RunHandle:
    """Return the run of that id; for a session, its open run or its last one, and report which.
    Raises `Failure`.
    """
    try:
        described = await server.client.get_workflow_handle(run_id).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        raise Failure(
            f"there is no run {run_id!r} in the namespace {server.client.namespace!r} of "
            f"{server.place}. Expected an id that `perdure ls` lists"
        ) from error
    if described.workflow_type == SESSION_WORKFLOW:
        return get_run(server.client, await last_turn(server.client, described))
    if described.workflow_type != WORKFLOW:
        raise Failure(not_a_run(run_id, described.workflow_type))
    return get_run(server.client, run_id)


async def last_turn(client: Client, described: WorkflowExecutionDescription) -> str:
    """Find the session's open run, else its last one, and report which. Raises `Failure` before the
    first.
    """
    if under_way := run_under_way(described):
        say(f"Session {described.id}: its open run is {under_way}", "faint")
        return under_way
    runs = await session(client, None, described.id).runs()
    if not runs:
        raise Failure(
            f"session {described.id} has no run yet: perdure chat --session "
            f"{shell_word(described.id)}"
        )
    say(f"Session {described.id}: no run is open; the last one is {runs[-1].id}", "faint")
    return runs[-1].id


@dataclass(frozen=True)
class ExistingRun:
    """A run as the server has it."""

    description: WorkflowExecutionDescription
    input: RunInput
    memo: CommandMemo

    @property
    def has_ended(self) -> bool:
        return self.description.close_time is not None


async def read_recorded(client: Client, run_id: str) -> ExistingRun:
    """Read the record of the run. Raises `RPCError` when there is none of that id."""
    description = await client.get_workflow_handle(run_id).describe()
    input = await read_input(client, run_id, description.run_id)
    memo = CommandMemo.read(await description.memo())
    if input.session and not memo.has_code:
        memo = await read_memo(await client.get_workflow_handle(input.session.session).describe())
    return ExistingRun(description, input, memo)


class _Teller(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage(), "strong")


@contextmanager
def waiting_shown() -> Iterator[None]:
    """Report on stderr, while the block runs, when the server stops answering and answers again."""
    teller, before = _Teller(), (logger.level, logger.propagate)
    logger.addHandler(teller)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(teller)
        logger.setLevel(before[0])
        logger.propagate = before[1]
