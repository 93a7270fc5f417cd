"""Start of `perdure run`: an agent's file and its inputs, or where an earlier run ended."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..agents import Agent, with_others
from ..client import RunHandle
from ..client.connection import environment_names_a_server
from ..client.run_input import loaded_agent
from ..client.starting import StartOptions, start_arguments
from ..commands import shell_word
from ..errors import RunError
from ..messages import Message
from ..model_choice import AS_WRITTEN, ModelChoice
from ..options import RunOptions
from .agent_file import load_checked, read_inputs
from .consent import require_consent
from .problems import Failure, UsageProblem
from .recorded_run import ExistingRun, read_recorded
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
        """With the memo, by which later commands find the code of this one, and what `served_as` gives."""
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
            self.tools, self.guardrails, self.compactors, [self.credentials] if self.credentials else []
        )


@dataclass(frozen=True)
class RunRequest:
    """Arguments of `perdure run`."""

    agent_or_text: str
    inputs: list[str]
    inputs_json: Path | None
    continued: str | None
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


def begin_with_file(request: RunRequest) -> StartArguments:
    """Begin a run of the agent in the file; what can't work is refused here, before anything is started.

    Raises `UsageProblem`, and what `load_checked` raises.
    """
    sources = request.sources
    code = sources.load()
    options = run_options({**request.fields, **hooks_of(code)})
    agent = _load(request, code)
    given = read_inputs(agent, request.inputs, request.inputs_json)
    memo = command_memo(code, sources.scripted, mock=sources.mock)
    return StartArguments(agent, given, None, options, code, memo, None)


def _load(request: RunRequest, code: UserCode) -> Agent:
    has_model = not (request.sources.scripted or request.sources.mock)
    elsewhere = not code and has_model and (request.detach or environment_names_a_server())
    return load_checked(
        Path(request.agent_or_text),
        code.tools,
        choice=request.choice,
        has_model=has_model,
        elsewhere=elsewhere,
        quiet=request.quiet,
    )


async def begin_after(server: ServerConnection, handle: RunHandle, request: RunRequest) -> StartArguments:
    """Begin a run that goes on where the given one ended, with what the user says next.

    Agent, options and code are those of that run, unless the command names others. Raises `Failure` while the run is
    under way, and `UsageProblem`.
    """
    sources = request.sources
    recorded = await read_recorded(server.client, handle.id)
    if not recorded.has_ended:
        raise Failure(
            f"run {handle.id} is still under way, expected one that has ended. Send it a message instead: "
            f'perdure steer {shell_word(handle.id)} "…"'
        )
    memo = memo_for(recorded, sources)
    agent = with_others(loaded_agent(recorded.input.agent, request.choice), recorded.input.agents)
    await consent_to(server, request, recorded, agent, memo)
    code = sources.load() if sources else load_code(memo)
    return StartArguments(
        agent=agent,
        inputs=recorded.input.inputs,
        messages=[*await _conversation_of(handle), Message.user(request.agent_or_text)],
        options=run_options({**request.fields, **hooks_of(code)}, base=recorded.input.options),
        code=code,
        memo=memo,
        task_queue=shared_queue(recorded.description.task_queue, handle.id),
        more={"deps": recorded.input.deps, "handoffs": recorded.input.handoffs},
    )


async def consent_to(
    server: ServerConnection, request: RunRequest, recorded: ExistingRun, agent: Agent | None, memo: CommandMemo
) -> None:
    """Raises as `require_consent` does where a recorded run's code or agent would act here, and nobody wants that."""
    works_here = bool(request.sources) or memo.has_code or server.embedded is not None
    await require_consent(
        f"What goes on from run {recorded.description.id}",
        agent if works_here and not request.detach else None,
        None if request.sources else memo,
        is_own=server.embedded is not None,
        yes=request.yes,
        quiet=request.quiet,
    )


def memo_for(recorded: ExistingRun, sources: CodeSources) -> CommandMemo:
    """Return the memo of a run that goes on from a recorded one. Raises `UsageProblem`."""
    if not sources:
        memo = recorded.memo
        return CommandMemo(memo.folder, memo.sources, sources.scripted or memo.scripted, sources.mock)
    return command_memo(sources.load(), sources.scripted or recorded.memo.scripted, mock=sources.mock)


async def _conversation_of(handle: RunHandle) -> list[Message]:
    """Return the conversation at the run's end, however it ended."""
    try:
        return (await handle.result()).messages
    except RunError as error:
        return error.messages


def shared_queue(task_queue: str, run_id: str) -> str | None:
    """Return the queue, unless only the earlier command's own worker polled it."""
    return None if task_queue == f"perdure-{run_id}" or task_queue.startswith("perdure-invoke_agent-") else task_queue


def hooks_of(code: UserCode) -> dict[str, str]:
    """Options of a run that name its guardrails and compactor. Raises `UsageProblem` for several of a kind."""
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


def load_code(memo: CommandMemo) -> UserCode:
    """Load the code that a command was given, from where it was typed. Raises `UsageProblem`."""
    sources = memo.sources or {}
    with memo.in_folder():
        return load_user_code(*(sources.get(option, ()) for option in CODE_OPTIONS))


def command_memo(code: UserCode, scripted: str | None, *, mock: bool = False) -> CommandMemo:
    """Return the memo of this command."""
    return CommandMemo(folder=os.getcwd(), sources=code.sources, scripted=scripted, mock=mock)
