"""Opens a session to talk to: finds or starts it, with its agent and code, and a worker where one
is needed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client, WorkflowExecutionDescription
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
from ..problems import Failure, UsageProblem
from ..run_options import run_options
from ..server_connection import CommandMemo, ServerConnection, connect_to_server, read_memo
from ..shared_options import DEFAULT_QUEUE
from ..start import (
    CodeSources,
    RunRequest,
    StartArguments,
    begin_with_file,
    hooks_of,
    recorded_code,
)
from ..user_code import say_mocks
from ..worker_inside import worker_inside


class IsClosed(Exception):
    """Raised when the session to close is closed already."""


@dataclass(frozen=True)
class ChatRequest(RunRequest):
    """Arguments of `perdure chat`: `id` is the session's, and `agent` its agent's file, or ""."""

    idle_timeout: float | None = None
    on_terminal: bool = False
    """Whether a person talks."""
    only_closes: bool = False
    """Whether nothing is to be said any more."""


@dataclass(frozen=True)
class Opened:
    """Session to talk to."""

    server: ServerConnection
    session: Session
    is_old: bool
    """Whether it was there before."""
    inside: bool
    """Whether this process has a worker for it."""

    @property
    def id(self) -> str:
        """Session's id."""
        return self.session.id

    @property
    def command(self) -> str:
        """Command that goes on with it."""
        return chat_command(self.id)


def chat_command(session: str) -> str:
    """Return the command that goes on with a session."""
    return f"perdure chat --session {shell_word(session)}"


@asynccontextmanager
async def open_session(request: ChatRequest) -> AsyncIterator[Opened]:
    """Within it, the session can be talked to. Raises as `load_checked` does, `UsageProblem`,
    `Failure`, `IsClosed`.
    """
    new = begin_with_file(request, read_given) if request.agent else None
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(connect_to_server())
        found = await find_session(server, request.id) if request.id else None
        _require_agent(request, found)
        if new and (new.memo.has_code or not found):
            code, memo = new.code, new.memo
        else:
            assert found
            memo = found.memo
            asked = found.agent if memo.has_code and not new else None
            title = f"The session {request.id}"
            code = await recorded_code(
                server, title, asked, memo, CodeSources(), yes=request.yes, quiet=True
            )
        id = request.id or readable_id((new.agent.name if new else "") or Path(request.agent).stem)
        inside = bool(code or memo.scripted or memo.mock) or await _has_no_other_worker(
            server, request, found, id
        )
        queue = request.task_queue or (found and found.task_queue) or _new_queue(id, inside=inside)
        if not (request.quiet or memo.scripted):
            say_mocks(honoured=memo.mock)
        agent = _serve_script(request, new, memo, found, stack)
        if inside:
            await stack.enter_async_context(
                worker_inside(server, task_queue=queue, code=code, mock=memo.mock)
            )
        grace = {"missing_tool_grace": 0.0} if inside else {}
        options = run_options(
            {"stream": request.on_terminal, **grace, **hooks_of(code), **request.fields}
        )
        served = request.served or {}
        session = session_of(
            server.client,
            agent,
            id,
            task_queue=queue,
            # Whoever sits at the terminal is told at once what fails.
            options=with_on_failure(new.agent, options, "fail") if new else options,
            inputs=new.inputs if new else None,
            idle_timeout=request.idle_timeout,
            tenant=served.get("tenant"),
            priority=served.get("priority"),
            deps=served.get("deps"),
            memo=memo.as_memo(queue),
        )
        yield Opened(server, session, found is not None, inside)


def _require_agent(request: ChatRequest, found: FoundSession | None) -> None:
    if request.only_closes and found is None:
        raise Failure(f"there is no session {request.id!r}: `perdure ls --sessions` lists them")
    if request.only_closes and found and found.has_ended:
        raise IsClosed
    if request.agent:
        return
    if not request.id:
        raise UsageProblem(
            "expected an agent's .prompty file, or --session with a session to go on with"
        )
    if found is None:
        raise Failure(
            f"there is no session {request.id!r}: name the agent that it is to begin with: "
            f"perdure chat AGENT.prompty --session {shell_word(request.id)}"
        )
    if found.has_ended:
        raise Failure(
            f"session {request.id} is closed: name the agent that a new one is to begin with: "
            "perdure chat "
            f"AGENT.prompty --session {shell_word(request.id)}. "
            f"Read the conversation: {command_line('messages', request.id)}"
        )
    if request.fields or request.inputs or request.inputs_json:
        raise UsageProblem(
            "options and inputs are for an agent that is named: expected its .prompty file with "
            "them"
        )


def _new_queue(id: str, *, inside: bool) -> str:
    return f"{DEFAULT_QUEUE}-{id}" if inside else DEFAULT_QUEUE


async def _has_no_other_worker(
    server: ServerConnection, request: ChatRequest, found: FoundSession | None, id: str
) -> bool:
    """Return whether only this command can execute the session's runs, on the embedded server."""
    if server.embedded is None:
        return False
    queue = request.task_queue or (found.task_queue if found else DEFAULT_QUEUE)
    # Such a queue has no workers but those of commands like this one, which come and go.
    return queue == _new_queue(id, inside=True) or not await server.is_polled(queue)


def _serve_script(
    request: ChatRequest,
    new: StartArguments | None,
    memo: CommandMemo,
    found: FoundSession | None,
    stack: AsyncExitStack,
) -> Agent | Path | None:
    """Yield the agent, or None for the one that the session has; a scripted model is served while
    the stack is open.
    """
    if not memo.scripted:
        return Path(request.agent).resolve() if new else None
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

    @property
    def task_queue(self) -> str:
        """Queue whose workers execute it and its runs."""
        return self.description.task_queue

    @property
    def has_ended(self) -> bool:
        """True once it is closed."""
        return self.description.close_time is not None


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
    return FoundSession(
        found, await read_memo(found), await _agent(server.client, id, found.run_id)
    )


async def _agent(client: Client, id: str, link: str) -> Agent:
    started = await read_start(client, id, link)
    return (await decode(client, started.input.payloads, SessionInput)).setup.agent
