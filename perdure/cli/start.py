"""Collects the arguments for the start of a run: from an agent's file, or from a recorded run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from typing import Any

from ..agents import Agent
from ..client.connection import environment_names_a_server
from ..client.starting import StartOptions, start_arguments
from ..json_types import JsonObject
from ..messages import Message
from ..model_choice import model_choice
from ..options import RunOptions
from .agent_file import load_checked, read_deps, read_inputs
from .consent import require_consent
from .given import Given
from .problems import UsageProblem
from .run_options import run_options
from .server_connection import CommandMemo, ServerConnection
from .user_code import UserCode, load_user_code, sources_of


@dataclass(frozen=True)
class StartArguments:
    """The arguments for the start of a run."""

    agent: Agent
    inputs: Mapping[str, Any]
    messages: Sequence[Message] | None
    options: RunOptions
    code: UserCode
    memo: CommandMemo
    task_queue: str | None
    """None for a queue that no worker outside this command polls."""
    more: StartOptions

    def start_options(self, task_queue: str) -> StartOptions:
        """Return further arguments of `start_run`, with the memo that tells later commands the code
        of this one.
        """
        memo = {**(self.more.get("memo") or {}), **self.memo.as_memo(task_queue)}
        return {**self.more, "memo": memo}


def start_options_of(given: Given) -> StartOptions:
    """Return the tenant, its weight, the priority and the deps of a run. Raises `UsageProblem`."""
    start: StartOptions = {
        "tenant": given.tenant,
        "tenant_weight": given.tenant_weight,
        "priority": given.priority,
    }
    try:
        start_arguments(start)
    except ValueError as error:
        raise UsageProblem(f"--{str(error).replace('tenant_weight', 'tenant-weight')}") from error
    return {**start, **read_deps(given.deps)}


def arguments_from_file(
    given: Given, read: Callable[..., JsonObject] = read_inputs
) -> StartArguments:
    """Return the arguments of a run of the agent in the file; `read` reads its inputs.

    Starts nothing, so that mistakes are reported before there is a server. Raises `UsageProblem`,
    and what `load_checked` raises.
    """
    code = load_user_code(sources_of(given))
    options = run_options({**given.options, **code.hooks()})
    has_model = not given.scripted
    agent = load_checked(
        given.agent_file,
        code.tools,
        choice=model_choice(given.model, given.provider, given.endpoint),
        has_model=has_model,
        elsewhere=not code and has_model and bool(given.detach or environment_names_a_server()),
        quiet=given.quiet,
    )
    inputs = read(agent, given.inputs, given.inputs_json)
    memo = CommandMemo(os.getcwd(), code.sources, given.scripted)
    return StartArguments(
        agent, inputs, None, options, code, memo, given.task_queue, start_options_of(given)
    )


async def recorded_code(
    server: ServerConnection, title: str, agent: Agent | None, memo: CommandMemo, given: Given
) -> tuple[UserCode, CommandMemo]:
    """Return the code for a recorded run, and the memo for one that continues it.

    The command line may name the code; else it is that of the recorded command, whose folder then
    becomes the current one. Raises as `require_consent` does, and `UsageProblem`.
    """
    sources = sources_of(given)
    await require_consent(
        title,
        agent,
        None if sources else memo,
        is_own=server.embedded is not None,
        yes=given.yes,
    )
    scripted = given.scripted or memo.scripted
    if sources:
        return load_user_code(sources), CommandMemo(os.getcwd(), sources, scripted)
    code = UserCode()
    if memo.sources or memo.scripted:
        folder = memo.existing_folder()
        with chdir(folder):
            code = load_user_code(memo.sources)
        if not given.scripted:
            os.chdir(folder)  # Tools and scripts are found where the run was started.
    return code, CommandMemo(memo.folder, memo.sources, scripted)


def require_functions(agent: Agent, code: UserCode, what: str, command: str) -> None:
    """Raises `UsageProblem`, with the command to type, where functions of the agent's tools are
    missing.
    """
    needed = [tool.name for tool in agent.tools or [] if tool.kind == "function"]
    if missing := [name for name in needed if name not in code.tools]:
        raise UsageProblem(
            f"{what} needs {', '.join(missing)}, expected their functions. Type: {command}"
        )
