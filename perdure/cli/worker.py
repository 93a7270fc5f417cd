"""`perdure worker`: execute runs, with the user's tools."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .console import answer, say
from .health import fresh_file
from .metrics import chosen
from .mocks import say_mocks
from .problems import UsageProblem
from .running import execute
from .task_queue import DEFAULT_QUEUE
from .user_code import UserCode

if TYPE_CHECKING:
    from ..worker_limits import WorkerLimits


def worker(
    tools: options.Tools = None,
    guardrails: options.GuardrailNames = None,
    compactor: options.Compactors = None,
    credentials: options.Credentials = None,
    task_queue: options.TaskQueue = DEFAULT_QUEUE,
    prompt_root: options.PromptRoot = None,
    rate: Annotated[
        list[str] | None,
        typer.Option(
            "--rate",
            metavar="NAME=N/s",
            help="Model calls that all workers of the queue make together: openai=50/s, openai/gpt-4o=300/min.",
        ),
    ] = None,
    mock: options.Mock = False,
    allow_commands: options.AllowCommands = None,
    allow_env: options.AllowEnv = None,
    allow_hosts: options.AllowHosts = None,
    allow_kinds: options.AllowKinds = None,
    reload: Annotated[bool, typer.Option("--reload", help="Restart when files change.")] = False,
    watch: options.Watch = None,
    grace: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Time for running tools to finish.")] = 30.0,
    health_file: Annotated[
        Path | None,
        typer.Option("--health-file", metavar="FILE", help="Touch it every 2 s while the worker is well."),
    ] = None,
    metrics_port: options.MetricsPort = None,
    metrics_address: options.MetricsAddress = None,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
    as_json: options.AsJson = False,
    ends_with_stdin: Annotated[bool, typer.Option(hidden=True, help="End when stdin is closed.")] = False,
) -> None:
    """Run a worker until Ctrl-C or SIGTERM.

    It polls the task queue and executes its runs. When it ends, running tools get --grace seconds to finish. Agents may
    use what the --allow options say (or PERDURE_ALLOW_COMMANDS, …_ENV, …_HOSTS, …_KINDS): perdure docs worker-limits.
    """
    from ..worker_limits import WorkerLimits
    from .reload import named_code, supervise, worker_arguments
    from .user_code import load_user_code

    rates = _rates(rate or ())
    allowed = {"commands": allow_commands, "env": allow_env, "hosts": allow_hosts, "kinds": allow_kinds}
    limits = WorkerLimits.from_environment().with_names(allowed)
    metrics = chosen(metrics_port, metrics_address)
    if reload:
        named = named_code(tools, guardrails, compactor, credentials)
        command = worker_arguments(named, task_queue, prompt_root, grace, rate, metrics=metrics, mock=mock)
        execute(supervise(command, watch or [Path.cwd()], limits.as_environment()), is_service=True)
        return
    code = load_user_code(tools or (), guardrails or (), compactor or (), [credentials] if credentials else [])
    end = _stdin_closed if ends_with_stdin else asyncio.Event().wait
    say_mocks(honoured=mock)
    work = _work(
        code,
        task_queue,
        prompt_root,
        grace,
        rates=rates,
        mock=mock,
        limits=limits,
        health_file=health_file,
        end=end,
        as_json=as_json,
    )
    execute(work, is_service=True, metrics=metrics)


def _rates(texts: Sequence[str]) -> dict[str, float]:
    """Calls per second by name. Raises `UsageProblem`."""
    from ..errors import ConfigurationError
    from ..rates import parsed_rates

    try:
        return parsed_rates(texts)
    except ConfigurationError as error:
        raise UsageProblem(f"--rate: {error}") from error


async def _work(
    code: UserCode,
    task_queue: str,
    prompt_root: Path | None,
    grace: float,
    *,
    rates: dict[str, float],
    mock: bool,
    limits: WorkerLimits,
    health_file: Path | None,
    end: Callable[[], Awaitable[object]],
    as_json: bool,
) -> None:
    from ..client.registration import register_search_attributes
    from ..trace.environment import exporting
    from ..worker import create_worker, tune_process
    from .session import open_session

    tune_process()
    async with open_session() as session:
        await register_search_attributes(session.client)
        async with (
            exporting(say) as traces,
            create_worker(
                session.client,
                task_queue=task_queue,
                tools=code.tools,
                registered_tools=not code.names_its_tools,
                guardrails=code.guardrails,
                compactors=code.compactors,
                credentials=code.credentials,
                prompt_root=prompt_root,
                model_rate=rates,
                mock=mock,
                limits=limits,
                graceful_shutdown_timeout=timedelta(seconds=grace),
                tracer_provider=traces,
            ) as running,
            fresh_file(health_file, running),
        ):
            tools = ", ".join(code.tools) or "none"
            say(f"Worker on {session.place}, task queue {task_queue!r}, tools: {tools}{_shown(rates)}", "strong")
            if as_json:
                answer({"taskQueue": task_queue, "tools": list(code.tools), "rates": rates})
            await end()


def _shown(rates: dict[str, float]) -> str:
    from ..rates import shown_rate

    each = ", ".join(f"{name} {shown_rate(rate)}" for name, rate in rates.items())
    return f", model calls: {each}" if rates else ""


async def _stdin_closed() -> None:
    """Return when the process at the other end of stdin is gone."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
