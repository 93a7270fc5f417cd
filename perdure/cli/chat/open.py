"""Opens a session to talk to: finds or starts it, with its agent and code, and a worker where one is needed."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.service import RPCError, RPCStatusCode

from ...agents import Agent
from ...client import Session
from ...client import session as session_of
from ...client.connection import environment_names_a_server
from ...client.starting import StartOptions, readable_id
from ...commands import command_line, shell_word
from ...history.events import decode
from ...history.link import read_start
from ...json_types import JsonObject
from ...options import RunOptions
from ...protocol.names import SESSION_WORKFLOW
from ...protocol.session import SessionInput
from ...settings.agent_file import with_on_failure
from ..agent_file import load_checked, read_given, script_at, scripted_agent
from ..consent import require_consent
from ..problems import Failure, UsageProblem
from ..run_options import run_options
from ..server_connection import CommandMemo, ServerConnection, connect_to_server, read_memo
from ..shared_options import DEFAULT_QUEUE
from ..start import CodeSources, command_memo, hooks_of, load_code
from ..user_code import UserCode, say_mocks
from ..worker_inside import worker_inside


class IsClosed(Exception):
    """Raised when the session to close is closed already."""


@dataclass(frozen=True)
class ChatRequest:
    """Arguments of `perdure chat`."""

    agent: Path | None
    session: str | None
    inputs: Sequence[str]
    inputs_json: Path | None
    sources: CodeSources
    fields: JsonObject
    task_queue: str | None
    served: StartOptions
    idle_timeout: float | None
    quiet: bool
    on_terminal: bool
    """Whether a person talks."""
    only_closes: bool = False
    """Whether nothing is to be said any more."""
    yes: bool = False
    """Whether nothing is asked about the code that a session was begun with."""


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
    """Within it, the session can be talked to. Raises as `load_checked` does, `UsageProblem`, `Failure`, `IsClosed`."""
    new = _Given.by(request) if request.agent else None
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(connect_to_server())
        found = await find_session(server, request.session) if request.session else None
        _require_agent(request, found)
        memo = new.memo if new and (new.memo.has_code or not found) else found.memo if found else CommandMemo()
        if not (new and new.code) and memo.has_code and found:
            own = server.embedded is not None
            title = f"The session {request.session}"
            await require_consent(title, None if new else found.agent, memo, is_own=own, yes=request.yes, quiet=True)
        code = new.code if new and new.code else _recorded_code(memo)
        id = request.session or _readable_id(new)
        inside = bool(code or memo.scripted or memo.mock) or await _has_no_other_worker(server, request, found, id)
        queue = request.task_queue or (found and found.task_queue) or _new_queue(id, inside=inside)
        if not (request.quiet or memo.scripted):
            say_mocks(honoured=memo.mock)
        agent = _serve_script(new, memo, found, stack)
        if inside:
            await stack.enter_async_context(worker_inside(server, task_queue=queue, code=code, mock=memo.mock))
        session = session_of(
            server.client,
            agent,
            id,
            task_queue=queue,
            options=_options(
                new, {"stream": request.on_terminal, **_grace(inside=inside), **hooks_of(code), **request.fields}
            ),
            inputs=new.inputs if new else None,
            idle_timeout=request.idle_timeout,
            tenant=request.served.get("tenant"),
            priority=request.served.get("priority"),
            deps=request.served.get("deps"),
            memo=memo.as_memo(queue),
        )
        yield Opened(server, session, found is not None, inside)


def _options(new: _Given | None, fields: JsonObject) -> RunOptions:
    """Return the options of the session's runs: whoever sits at the terminal is told at once what fails."""
    options = run_options(fields)
    return with_on_failure(new.agent, options, "fail") if new else options


@dataclass(frozen=True)
class _Given:
    """Agent, inputs and code that the command line gives."""

    file: Path
    agent: Agent
    inputs: JsonObject
    code: UserCode
    memo: CommandMemo

    @classmethod
    def by(cls, request: ChatRequest) -> _Given:
        """Read and checked before a server starts."""
        assert request.agent
        code, script = request.sources.load(), request.sources.scripted
        elsewhere = not (code or script or request.sources.mock) and environment_names_a_server()
        agent = load_checked(
            request.agent,
            code.tools,
            has_model=not (script or request.sources.mock),
            elsewhere=elsewhere,
            quiet=request.quiet,
        )
        inputs = read_given(agent, request.inputs, request.inputs_json)
        return cls(request.agent.resolve(), agent, inputs, code, command_memo(code, script, mock=request.sources.mock))


def _require_agent(request: ChatRequest, found: FoundSession | None) -> None:
    if request.only_closes and found is None:
        raise Failure(f"there is no session {request.session!r}: `perdure ls --sessions` lists them")
    if request.only_closes and found and found.has_ended:
        raise IsClosed
    if request.agent:
        return
    if not request.session:
        raise UsageProblem("expected an agent's .prompty file, or --session with a session to go on with")
    if found is None:
        raise Failure(
            f"there is no session {request.session!r}: name the agent that it is to begin with: "
            f"perdure chat AGENT.prompty --session {shell_word(request.session)}"
        )
    if found.has_ended:
        raise Failure(
            f"session {request.session} is closed: name the agent that a new one is to begin with: perdure chat "
            f"AGENT.prompty --session {shell_word(request.session)}. "
            f"Read the conversation: {command_line('messages', request.session)}"
        )
    if request.fields or request.inputs or request.inputs_json:
        raise UsageProblem("options and inputs are for an agent that is named: expected its .prompty file with them")


def _recorded_code(memo: CommandMemo) -> UserCode:
    """Return the code that the session was begun with, if it was by a command. Raises `UsageProblem`."""
    if not memo.has_code:
        return UserCode()
    code = load_code(memo)
    if memo.folder:
        os.chdir(memo.folder)  # Tools find their files where the session was begun.
    return code


def _readable_id(new: _Given | None) -> str:
    assert new
    return readable_id(new.agent.name or new.file.stem)


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


def _grace(*, inside: bool) -> JsonObject:
    return {"missing_tool_grace": 0.0} if inside else {}


def _serve_script(
    new: _Given | None, memo: CommandMemo, found: FoundSession | None, stack: AsyncExitStack
) -> Agent | Path | None:
    """Yield the agent, or None for the one that the session has; a scripted model is served while the stack is open."""
    if not memo.scripted:
        return new.file if new else None
    if found and not found.has_ended and found.endpoint:
        with suppress(OSError):  # Another terminal serves it.
            stack.enter_context(script_at(found.endpoint, memo.scripted))
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

    @property
    def endpoint(self) -> str:
        """Address of its agent's model; "" for the provider's own."""
        connection = self.agent.model.connection if self.agent.model else None
        return (connection and connection.endpoint) or ""


async def find_session(server: ServerConnection, id: str) -> FoundSession | None:
    """Find the latest session of that id; None when there is none. Raises `Failure` for the id of something else."""
    try:
        found = await server.client.get_workflow_handle(id).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return None
    if found.workflow_type != SESSION_WORKFLOW:
        raise Failure(f"{id!r} is the id of a run, expected that of a session: `perdure ls --sessions` lists them")
    return FoundSession(found, await read_memo(found), await _agent(server.client, id, found.run_id))


async def _agent(client: Client, id: str, link: str) -> Agent:
    started = await read_start(client, id, link)
    return (await decode(client, started.input.payloads, SessionInput)).setup.agent
