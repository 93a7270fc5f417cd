"""Opens a session: finds or starts it, with its agent and code, and a worker if it needs one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import WorkflowExecutionDescription
from temporalio.service import RPCError, RPCStatusCode

from ...agents import Agent
from ...client import Session
from ...client import session as session_of
from ...client.starting import readable_id
from ...commands import command_line, shell_word
from ...history.events import decode
from ...history.link import read_start
from ...protocol.names import SESSION_WORKFLOW
from ...protocol.session import SessionInput
from ...settings.agent_file import with_on_failure
from ..agent_file import endpoint_of, read_given, script_at, scripted_agent
from ..given import Given
from ..problems import Failure, UsageProblem
from ..run_options import run_options
from ..server_connection import CommandMemo, ServerConnection, connect_to_server, read_memo
from ..start import StartArguments, arguments_from_file, recorded_code, start_options_of
from ..table import DEFAULT_QUEUE
from ..user_code import UserCode, say_mocks
from ..worker_inside import worker_inside


class IsClosed(Exception):
    """Raised when the session to close is closed already."""


@dataclass(frozen=True)
class Opened:
    """An open session."""

    server: ServerConnection
    session: Session
    is_old: bool
    """Whether it existed before."""
    inside: bool
    """Whether this process has a worker for it."""

    @property
    def id(self) -> str:
        """The session's id."""
        return self.session.id

    @property
    def command(self) -> str:
        """The command that continues the conversation."""
        return chat_command(self.id)


def chat_command(session: str) -> str:
    """Return the command that continues a session."""
    return f"perdure chat --session {shell_word(session)}"


@asynccontextmanager
async def open_session(given: Given, *, on_terminal: bool) -> AsyncIterator[Opened]:
    """Open the session of `perdure chat`, for the block.

    Raises as `load_checked` does, `UsageProblem`, `Failure`, `IsClosed`.
    """
    new = arguments_from_file(given, read_given) if given.agent_file else None
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(connect_to_server())
        found = await find_session(server, given.session) if given.session else None
        _require_agent(given, found)
        code, memo = await _code(server, given, new, found)
        id = given.session or readable_id(new.agent.name or given.agent_file.stem if new else "")
        private = f"{DEFAULT_QUEUE}-{id}"
        named: str | None = given.task_queue or (found.description.task_queue if found else None)
        inside = bool(code) or memo.has_code or await _has_no_other_worker(server, named, private)
        queue = named or (private if inside else DEFAULT_QUEUE)
        if not (given.quiet or memo.scripted):
            say_mocks(honoured=False)
        agent = _serve_script(given, new, memo, found, stack)
        if inside:
            await stack.enter_async_context(worker_inside(server, task_queue=queue, code=code))
        grace = {"missing_tool_grace": 0.0} if inside and queue == private else {}
        options = run_options({"stream": on_terminal, **grace, **code.hooks(), **given.options})
        served = start_options_of(given)
        session = session_of(
            server.client,
            agent,
            id,
            task_queue=queue,
            # A person at the terminal sees at once what fails.
            options=with_on_failure(new.agent, options, "fail") if new else options,
            inputs=new.inputs if new else None,
            idle_timeout=given.idle_timeout,
            tenant=served["tenant"],
            priority=served["priority"],
            deps=served.get("deps"),
            memo=memo.as_memo(queue),
        )
        yield Opened(server, session, found is not None, inside)


async def _code(
    server: ServerConnection, given: Given, new: StartArguments | None, found: FoundSession | None
) -> tuple[UserCode, CommandMemo]:
    """Return the code of the command line, else that with which the session was begun."""
    if new and (new.memo.has_code or not found):
        return new.code, new.memo
    assert found
    asked = found.agent if found.memo.has_code and not new else None
    code, _ = await recorded_code(
        server,
        f"The session {given.session}",
        asked,
        found.memo,
        Given(yes=given.yes, quiet=True),
    )
    return code, found.memo


def _require_agent(given: Given, found: FoundSession | None) -> None:
    """Raises `Failure` and `UsageProblem` without an agent for the session, and `IsClosed` when a
    closed one is to be closed.
    """
    id = given.session
    begin = f"perdure chat AGENT.prompty --session {shell_word(id or '')}"
    if given.close and not given.message:
        if found is None:
            raise Failure(f"there is no session {id!r}: `perdure ls --sessions` lists them")
        if found.has_ended:
            raise IsClosed
    if given.agent_file:
        return
    if not id:
        raise UsageProblem("expected an agent's .prompty file, or --session with an open session")
    if found is None:
        raise Failure(f"there is no session {id!r}: name the agent that begins it: {begin}")
    if found.has_ended:
        raise Failure(
            f"session {id} is closed: name the agent that begins a new one: {begin}. Read the "
            f"conversation: {command_line('messages', id)}"
        )
    if given.options or given.inputs or given.inputs_json:
        raise UsageProblem("options and inputs go with an agent: expected its .prompty file")


async def _has_no_other_worker(server: ServerConnection, named: str | None, private: str) -> bool:
    """Return whether only this command can execute the session's runs, on the embedded server."""
    if server.embedded is None:
        return False
    # A private queue has no workers but those of commands like this one, which come and go.
    return named == private or not await server.is_polled(named or DEFAULT_QUEUE)


def _serve_script(
    given: Given,
    new: StartArguments | None,
    memo: CommandMemo,
    found: FoundSession | None,
    stack: AsyncExitStack,
) -> Agent | Path | None:
    """Return the agent or its file, or None for the session's own; serve a scripted model until
    the stack closes.
    """
    if not memo.scripted:
        return given.agent_file.resolve() if new else None
    if found and not found.has_ended and (endpoint := endpoint_of(found.agent)):
        with suppress(OSError):  # Another terminal serves it.
            stack.enter_context(script_at(endpoint, memo.scripted))
        return None
    return stack.enter_context(scripted_agent(new.agent, memo.scripted)) if new else None


@dataclass(frozen=True)
class FoundSession:
    """Session as the server has it, open or closed."""

    description: WorkflowExecutionDescription
    memo: CommandMemo
    agent: Agent
    """The one that it has begun with."""
    has_ended: bool


async def find_session(server: ServerConnection, id: str) -> FoundSession | None:
    """Find the latest session of that id; None when there is none. Raises `Failure` for the id of
    something else.
    """
    try:
        found = await server.client.get_workflow_handle(id).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return None
    if found.workflow_type != SESSION_WORKFLOW:
        raise Failure(
            f"{id!r} is the id of a run, expected that of a session: `perdure ls --sessions` lists "
            "them"
        )
    started = await read_start(server.client, id, found.run_id)
    agent = (await decode(server.client, started.input.payloads, SessionInput)).setup.agent
    return FoundSession(found, await read_memo(found), agent, found.close_time is not None)
