"""What runs are started with: an agent's file and its inputs, or what is recorded of an earlier
run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..agents import Agent
from ..client.connection import environment_names_a_server
from ..client.starting import StartOptions, start_arguments
from ..json_types import JsonObject
from ..messages import Message
from ..model_choice import AS_WRITTEN, ModelChoice
from ..options import RunOptions
from .agent_file import load_checked, read_inputs
from .consent import require_consent
from .problems import UsageProblem
from .recorded_run import ExistingRun
from .run_options import run_options
from .server_connection import CommandMemo, ServerConnection
from .user_code import CODE_OPTIONS, UserCode, load_user_code


@dataclass(frozen=True)
class StartArguments:
    """Everything that a run is started with."""

    agent: Agent
    inputs: Mapping[str, Any]
    messages: Sequence[Message] | None
    options: RunOptions
    code: UserCode
    memo: CommandMemo
    task_queue: str | None
    more: StartOptions | None = None
    """What else the run is started with."""

    @property
    def script(self) -> str | None:
        """Scripted model that answers instead of the agent's."""
        return self.memo.scripted

    def start_options(self, task_queue: str, served: StartOptions | None) -> StartOptions:
        """With the memo, by which later commands find the code of this one, and what `served_as`
        gives.
        """
        more: StartOptions = {**(self.more or {}), **(served or {})}
        return {**more, "memo": {**(more.get("memo") or {}), **self.memo.as_memo(task_queue)}}


@dataclass(frozen=True)
class CodeSources:
    """Sources of the user's code that the options of a command name."""

    tools: Sequence[str] = ()
    guardrails: Sequence[str] = ()
    compactors: Sequence[str] = ()
    scripted: str | None = None
    mock: bool = False
    credentials: str | None = None

    def __bool__(self) -> bool:
        return bool(self.tools or self.guardrails or self.compactors or self.credentials)

    def load(self) -> UserCode:
        """Import it. Raises `UsageProblem`."""
        return load_user_code(
            self.tools,
            self.guardrails,
            self.compactors,
            [self.credentials] if self.credentials else [],
        )


@dataclass(frozen=True)
class RunRequest:
    """Arguments of `perdure run`."""

    agent: str
    """The agent's file, or the id of the run that goes on."""
    inputs: list[str]
    inputs_json: Path | None
    sources: CodeSources
    fields: dict[str, Any]
    id: str | None
    task_queue: str | None
    detach: bool
    as_json: bool
    quiet: bool
    served: StartOptions | None = None
    """For whom the run is, and how urgent."""
    choice: ModelChoice = AS_WRITTEN
    """The model to use in the place of the agent's."""
    yes: bool = False
    """Whether nothing is asked about what a recorded run would use."""


def served_as(tenant: str | None, weight: float | None, priority: int | None) -> StartOptions:
    """For whom a run is, and how urgent. Raises `UsageProblem`."""
    start: StartOptions = {"tenant": tenant, "tenant_weight": weight, "priority": priority}
    try:
        start_arguments(start)
    except ValueError as error:
        raise UsageProblem(f"--{str(error).replace('tenant_weight', 'tenant-weight')}") from error
    return start


def begin_with_file(
    request: RunRequest, read: Callable[..., JsonObject] = read_inputs
) -> StartArguments:
    """Begin a run of the agent in the file; what can't work is refused here, before anything is
    started.

    Raises `UsageProblem`, and what `load_checked` raises.
    """
    sources = request.sources
    code = sources.load()
    options = run_options({**request.fields, **hooks_of(code)})
    agent = _load(request, code)
    given = read(agent, request.inputs, request.inputs_json)
    memo = command_memo(code, sources.scripted, mock=sources.mock)
    return StartArguments(agent, given, None, options, code, memo, None)


def _load(request: RunRequest, code: UserCode) -> Agent:
    has_model = not (request.sources.scripted or request.sources.mock)
    elsewhere = not code and has_model and (request.detach or environment_names_a_server())
    return load_checked(
        Path(request.agent),
        code.tools,
        choice=request.choice,
        has_model=has_model,
        elsewhere=elsewhere,
        quiet=request.quiet,
    )


async def code_to_go_on(
    server: ServerConnection, request: RunRequest, recorded: ExistingRun, agent: Agent | None
) -> tuple[UserCode, CommandMemo]:
    """Return the code of a run that goes on from a recorded one, as `recorded_code` does, and its
    memo.
    """
    sources, memo = request.sources, recorded.memo
    works_here = bool(sources) or memo.has_code or server.embedded is not None
    asked = agent if works_here and not request.detach else None
    title = f"The continuation of run {recorded.description.id}"
    code = await recorded_code(
        server, title, asked, memo, sources, yes=request.yes, quiet=request.quiet
    )
    scripted = sources.scripted or memo.scripted
    if sources:
        return code, command_memo(code, scripted, mock=sources.mock)
    return code, CommandMemo(memo.folder, memo.sources, scripted, sources.mock)


async def recorded_code(
    server: ServerConnection,
    title: str,
    agent: Agent | None,
    memo: CommandMemo,
    sources: CodeSources,
    *,
    yes: bool,
    quiet: bool,
) -> UserCode:
    """Return the code that options name, else that of the recorded command; its folder is the
    current one then.

    Raises as `require_consent` does, which says first what the agent and that code use, and
    `UsageProblem`.
    """
    is_own = server.embedded is not None
    await require_consent(
        title, agent, None if sources else memo, is_own=is_own, yes=yes, quiet=quiet
    )
    if sources:
        return sources.load()
    if not (memo.sources or memo.scripted):
        return UserCode()
    named = memo.sources or {}
    with memo.in_folder():
        code = load_user_code(*(named.get(option, ()) for option in CODE_OPTIONS))
    if not sources.scripted:
        os.chdir(memo.folder or ".")  # Tools and scripts are found where the run was started.
    return code


def require_functions(agent: Agent, code: UserCode, what: str, command: str) -> None:
    """Raises `UsageProblem`, with the command to type, where functions of the agent's tools are
    missing.
    """
    needed = [tool.name for tool in agent.tools or [] if tool.kind == "function"]
    if missing := [name for name in needed if name not in code.tools]:
        raise UsageProblem(
            f"{what} needs {', '.join(missing)}, expected their functions. Type: {command}"
        )


def shared_queue(task_queue: str, run_id: str) -> str | None:
    """Return the queue, unless only the earlier command's own worker polled it."""
    return (
        None
        if task_queue == f"perdure-{run_id}" or task_queue.startswith("perdure-invoke_agent-")
        else task_queue
    )


def hooks_of(code: UserCode) -> dict[str, str]:
    """Options of a run that name its guardrails and compactor. Raises `UsageProblem` for several of
    a kind.
    """
    found = {
        "guardrails": _only_name("--guardrails", code.guardrails),
        "compactor": _only_name("--compactor", code.compactors),
    }
    return {field: name for field, name in found.items() if name}


def _only_name(option: str, named: Mapping[str, Any]) -> str | None:
    """Return the one name that is given, or None. Raises `UsageProblem` when there are several."""
    if len(named) > 1:
        raise UsageProblem(f"{option} names {', '.join(named)}, expected one: a run uses one")
    return next(iter(named), None)


def command_memo(code: UserCode, scripted: str | None, *, mock: bool = False) -> CommandMemo:
    """Return the memo of this command."""
    return CommandMemo(folder=os.getcwd(), sources=code.sources, scripted=scripted, mock=mock)
