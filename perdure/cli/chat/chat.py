"""`perdure chat`: a conversation with an agent, in a session that outlives the terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .. import shared_options as options
from ..agent_file import read_deps
from ..command import execute, use_command_class
from ..console import say
from ..problems import DONE, UsageProblem
from ..run_options import CommandWithRunOptions, chosen_fields
from ..start import CodeSources, served_as
from ..user_code import require_mocks
from .open import ChatRequest, IsClosed, open_session
from .pipe import lines_of_stdin, messages_of, say_all
from .talk import talk


@use_command_class(CommandWithRunOptions)
def chat(
    context: typer.Context,
    agent_file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[AGENT.prompty]",
            help="The agent's file; a session that is open has one already.",
        ),
    ] = None,
    session: options.SessionId = None,
    message: Annotated[
        list[str] | None,
        typer.Option(
            "--message",
            "-m",
            metavar="TEXT",
            help="Say this, print the answer, and end; - is all of stdin.",
        ),
    ] = None,
    close: Annotated[
        bool, typer.Option("--close", help="Close the session, after sending the messages of -m.")
    ] = False,
    inputs: options.Inputs = None,
    inputs_json: options.InputsJson = None,
    deps: options.Deps = None,
    tools: options.Tools = None,
    guardrails: options.GuardrailNames = None,
    compactor: options.Compactors = None,
    credentials: options.Credentials = None,
    task_queue: Annotated[
        str | None,
        typer.Option(
            "--task-queue", metavar="NAME", help="The task queue whose workers execute the runs."
        ),
    ] = None,
    idle_timeout: Annotated[
        float | None,
        typer.Option(
            "--idle-timeout",
            metavar="SECONDS",
            min=1,
            help="A session without a turn for so long closes.",
        ),
    ] = None,
    tenant: options.Tenant = None,
    priority: options.Priority = None,
    scripted: options.Scripted = None,
    mock: options.Mock = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    yes: options.Yes = False,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
) -> None:
    """Talk with an agent.

    Each turn is a durable run of a session, which stays when the terminal is closed: --session goes
    on with it, from another terminal too. What is typed while the agent works, it reads before its
    next model call.

    Without a terminal, each line of stdin is a message, and the answers alone go to stdout.
    """
    request = ChatRequest(
        agent=str(agent_file or ""),
        inputs=inputs or [],
        inputs_json=inputs_json,
        id=session,
        detach=False,
        as_json=as_json,
        sources=CodeSources(
            tools or (), guardrails or (), compactor or (), scripted, mock, credentials
        ),
        fields=chosen_fields(context),
        task_queue=task_queue,
        served={**served_as(tenant, None, priority), **read_deps(deps)},
        idle_timeout=idle_timeout,
        quiet=quiet,
        yes=yes,
        on_terminal=not (message or close or as_json)
        and sys.stdin.isatty()
        and sys.stderr.isatty(),
        only_closes=close and not message,
    )
    require_mocks(
        asked=mock, scripted=scripted, quiet=True
    )  # A session that is there may have been begun with --mock.
    execute(_chat(request, message or [], close=close, as_json=as_json))


async def _chat(request: ChatRequest, messages: list[str], *, close: bool, as_json: bool) -> int:
    if close and not request.id:
        raise UsageProblem("--close: expected --session with the session that is to be closed")
    try:
        return await _hold(request, messages, close=close, as_json=as_json)
    except IsClosed:
        if not request.quiet:
            say(f"Session {request.id} is closed already.", "faint")
        return DONE


async def _hold(request: ChatRequest, messages: list[str], *, close: bool, as_json: bool) -> int:
    async with open_session(request) as found:
        if request.on_terminal:
            return await talk(found, on_stdout=not sys.stdout.isatty())
        said = messages_of(messages) if messages or close else lines_of_stdin()
        code = await say_all(found, said, quiet=request.quiet, as_json=as_json)
        if close:
            await found.session.close()
        if not request.quiet:
            _say_where_it_is(found.id, found.command, closed=close)
        return code


def _say_where_it_is(session: str, command: str, *, closed: bool) -> None:
    say(
        f"Session {session} is closed." if closed else f"Go on with the session: {command}", "faint"
    )
