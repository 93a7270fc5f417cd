"""`perdure worker`: execute runs with the user's tools, restart when files change, and show that it
is well.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Literal

import typer

from ..client.connection import register_search_attributes
from ..errors import ConfigurationError
from ..json_types import JsonObject, JsonView
from ..providers.rates import parsed_rates, shown_rate
from ..trace.environment import provider_of_process
from ..worker import create_worker, tune_process
from ..worker.ending import failing_soon
from ..worker.health import require_tasks, serving_health
from ..worker_limits import WorkerLimits
from . import shared_options as options
from . import worker_options as more
from .command import execute
from .console import answer, say
from .problems import USAGE, UsageProblem
from .server_connection import ServerConnection, connect_to_server
from .shared_options import DEFAULT_QUEUE, endpoint
from .user_code import UserCode, load_user_code, say_mocks
from .worker_inside import current_version_command


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
            help=(
                "Model calls that all workers of the queue make together: openai=50/s, "
                "openai/gpt-4o=300/min."
            ),
        ),
    ] = None,
    mock: options.Mock = False,
    on_failure: Annotated[
        Literal["fail", "hold"] | None,
        typer.Option(
            help="The default `on_failure` of runs that cannot go on: perdure docs holding."
        ),
    ] = None,
    allow_commands: options.AllowCommands = None,
    allow_env: options.AllowEnv = None,
    allow_hosts: options.AllowHosts = None,
    allow_kinds: options.AllowKinds = None,
    deployment: more.Deployment = None,
    build_id: more.BuildId = None,
    max_concurrent_workflow_tasks: more.WorkflowTasks = None,
    max_concurrent_activities: more.Activities = None,
    max_concurrent_local_activities: more.LocalActivities = None,
    max_cached_workflows: more.CachedWorkflows = None,
    max_concurrent_workflow_task_polls: more.WorkflowPolls = None,
    max_concurrent_activity_task_polls: more.ActivityPolls = None,
    reload: Annotated[bool, typer.Option("--reload", help="Restart when files change.")] = False,
    watch: options.Watch = None,
    grace: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Time for running tools to finish.")
    ] = 30.0,
    health_address: Annotated[
        str | None,
        typer.Option(
            "--health-address",
            metavar="[HOST:]PORT",
            help="Serve /health/live and /health/ready there; on 127.0.0.1 by default.",
        ),
    ] = None,
    metrics_address: options.MetricsAddress = None,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
    as_json: options.AsJson = False,
    ends_with_stdin: Annotated[
        bool, typer.Option(hidden=True, help="End when stdin is closed.")
    ] = False,
) -> None:
    """Run a worker until Ctrl-C or SIGTERM.

    It polls the task queue and executes its runs. When it ends, running tools get --grace seconds
    to finish. Agents may use what the --allow options say (or PERDURE_ALLOW_COMMANDS, …_ENV,
    …_HOSTS, …_KINDS): perdure docs worker-limits.
    """
    rates = _rates(rate or ())
    allowed = {
        "commands": allow_commands,
        "env": allow_env,
        "hosts": allow_hosts,
        "kinds": allow_kinds,
    }
    limits = WorkerLimits.from_environment().with_names(allowed)
    metrics = endpoint(metrics_address)
    health = endpoint(health_address)
    more.require_version(deployment, build_id, reload=reload)
    sizes = more.given_sizes(
        max_concurrent_workflow_tasks=max_concurrent_workflow_tasks,
        max_concurrent_activities=max_concurrent_activities,
        max_concurrent_local_activities=max_concurrent_local_activities,
        max_cached_workflows=max_cached_workflows,
        max_concurrent_workflow_task_polls=max_concurrent_workflow_task_polls,
        max_concurrent_activity_task_polls=max_concurrent_activity_task_polls,
    )
    if reload:
        named = named_code(tools, guardrails, compactor, credentials)
        others = more.as_words({**sizes, **({"health_address": health} if health else {})})
        command = (
            worker_arguments(
                named, task_queue, prompt_root, grace, rate, metrics=metrics, mock=mock
            )
            + others
        )
        command += ["--on-failure", on_failure] if on_failure else []
        work = supervise([command], watch or [Path.cwd()], limits.as_environment())
        execute(work, is_service=True, grace=KILL_AFTER_SECONDS)
        return
    code = load_user_code(
        tools or (), guardrails or (), compactor or (), [credentials] if credentials else []
    )
    end = stdin_closed if ends_with_stdin else asyncio.Event().wait
    say_mocks(honoured=mock)
    settings = dict(
        task_queue=task_queue,
        prompt_root=prompt_root,
        graceful_shutdown_timeout=timedelta(seconds=grace),
        model_rate=rates,
        mock=mock,
        limits=limits,
        on_failure=on_failure,
        deployment=deployment,
        build_id=build_id,
        **sizes,
    )
    work = _work(code, settings, health=health, end=end, as_json=as_json)
    execute(work, is_service=True, metrics=metrics, grace=grace)


def _rates(texts: Sequence[str]) -> dict[str, float]:
    """Calls per second by name. Raises `UsageProblem`."""
    try:
        return parsed_rates(texts)
    except ConfigurationError as error:
        raise UsageProblem(f"--rate: {error}") from error


async def _work(
    code: UserCode,
    settings: JsonObject,
    *,
    health: str | None,
    end: Callable[[], Awaitable[object]],
    as_json: bool,
) -> None:
    tune_process()
    async with connect_to_server() as server, failing_soon(settings):
        await register_search_attributes(server.client)
        await require_tasks(server.client, settings["task_queue"])
        running = create_worker(
            server.client,
            tracer_provider=provider_of_process(say),
            **code.for_worker(),
            **settings,
        )
        async with serving_health(health, running) as works, running:
            _say_what_works(server, code, settings, as_json=as_json)
            with works:
                await end()


def _say_what_works(
    server: ServerConnection, code: UserCode, settings: JsonView, *, as_json: bool
) -> None:
    queue, rates, deployment, build_id = itemgetter(
        "task_queue", "model_rate", "deployment", "build_id"
    )(settings)
    tools = ", ".join(code.tools) or "none"
    version = f", version {deployment}:{build_id}" if deployment else ""
    say(
        f"Worker on {server.place}, task queue {queue!r}{version}, tools: "
        f"{tools}{_rate_line(rates)}",
        "strong",
    )
    if as_json:
        place = {"taskQueue": queue, "rates": rates, "deployment": deployment, "buildId": build_id}
        answer({"tools": list(code.tools), **place})
    if deployment:
        say(
            "It gets runs once its version is current: "
            f"{current_version_command(deployment, build_id)}"
        )


def _rate_line(rates: dict[str, float]) -> str:
    each = ", ".join(f"{name} {shown_rate(rate)}" for name, rate in rates.items())
    return f", model calls: {each}" if rates else ""


async def stdin_closed() -> None:
    """Return when the process at the other end of stdin is gone."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    await reader.read()


_WATCHED_SUFFIXES = (".py", ".prompty", ".json", ".yaml", ".yml")
KILL_AFTER_SECONDS = 35.0
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a process that has died starts again: doubled each time, until one has lived for
the longest."""


def named_code(
    tools: Iterable[str] | None,
    guardrails: Iterable[str] | None,
    compactors: Iterable[str] | None,
    credentials: str | None,
) -> dict[str, Iterable[str]]:
    """Return the user's code that the options of a command name, by option."""
    named = {"--tools": tools, "--guardrails": guardrails, "--compactor": compactors}
    return {
        **{option: sources or () for option, sources in named.items()},
        "--credentials": filter(None, [credentials]),
    }


def worker_arguments(
    code: Mapping[str, Iterable[str]],
    task_queue: str,
    prompt_root: Path | None,
    grace: float,
    rates: Iterable[str] | None = None,
    *,
    metrics: str | None = None,
    mock: bool = False,
) -> list[str]:
    """Return the arguments of the `perdure worker` to supervise."""
    given = {**code, "--rate": rates or ()}
    named = [word for option, specs in given.items() for spec in specs for word in (option, spec)]
    root = ["--prompt-root", str(prompt_root)] if prompt_root else []
    measured = ["--metrics-address", metrics] if metrics else []
    mocked = ["--mock"] if mock else []
    return [
        "worker",
        *named,
        "--task-queue",
        task_queue,
        "--grace",
        str(grace),
        *root,
        *measured,
        *mocked,
    ]


async def supervise(
    commands: Sequence[Sequence[str]],
    folders: Sequence[Path],
    environment: Mapping[str, str] | None = None,
) -> None:
    """Keep the processes of these commands running until cancelled; new ones start when they die
    and after a change.
    """
    from watchfiles import awatch

    processes = [CommandProcess(command, environment or {}) for command in commands]
    names = " and ".join(each.name for each in processes)
    try:
        await asyncio.gather(*(each.start() for each in processes))
        async for changes in awatch(*folders, step=100, debounce=400):
            changed = sorted(
                {Path(path).name for _, path in changes if path.endswith(_WATCHED_SUFFIXES)}
            )
            if changed:
                say(f"{', '.join(changed)} changed: restarting the {names}", "faint")
                await asyncio.gather(*(each.restart() for each in processes))
    finally:
        await asyncio.gather(*(each.end() for each in processes))


_NAMES = {"worker": "worker", "serve": "gateway"}


class CommandProcess:
    """`perdure worker` or `perdure serve` in a process of its own."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = _NAMES[arguments[0]]
        self._arguments = arguments
        self._environment = environment
        self._process: asyncio.subprocess.Process | None = None

    async def restart(self) -> None:
        """End the process, and start it again."""
        await self.end()
        await self.start()

    async def start(self) -> None:
        """Start the process, and again whenever it dies, until `end`."""
        await self._spawn()
        self._keeping = asyncio.create_task(self._keep())

    async def _spawn(self) -> None:
        """Start the process, in a session of its own: Ctrl-C reaches this process only, which then
        ends that one.

        When this process is killed, the pipe to the other one's stdin closes, and it ends too.
        """
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "perdure.cli", *self._arguments, "--ends-with-stdin"),
            stdin=asyncio.subprocess.PIPE,
            env={**os.environ, **self._environment},
            start_new_session=True,
        )

    async def end(self) -> None:
        """End the process: SIGTERM, then SIGKILL. Does nothing when it has ended by itself, or has
        not begun.
        """
        if self._process is None:
            return
        self._keeping.cancel()
        await asyncio.wait([self._keeping])
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), KILL_AFTER_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def _keep(self) -> None:
        """Start the process again when it has died; return when it can't work before a file
        changes.
        """
        assert self._process is not None
        pause, now = FIRST_PAUSE, asyncio.get_running_loop().time
        while True:
            started = now()
            code = await self._process.wait()
            if code == USAGE:
                say(
                    f"The {self.name} ended (exit code {code}). It starts again when a watched "
                    "file changes.",
                    "bad",
                )
                return
            pause = FIRST_PAUSE if now() - started > LONGEST_PAUSE else pause
            why = (
                f"was killed by {signal.Signals(-code).name}"
                if code < 0
                else f"ended with exit code {code}"
            )
            say(f"The {self.name} {why}. It starts again in {pause:g} s.", "bad")
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            await self._spawn()
