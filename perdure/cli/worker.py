"""`perdure worker`: executes runs with the user's tools, and serves health and metrics."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

from ..client.connection import register_search_attributes
from ..errors import ConfigurationError
from ..json_types import JsonObject
from ..prompty.worker_limits import WorkerLimits
from ..providers.rates import parsed_rates, shown_rate
from ..trace.environment import provider_of_process
from ..worker import create_worker, tune_process
from ..worker.ending import failing_soon
from ..worker.health import require_tasks, serving_health
from .command import execute
from .console import answer, say
from .given import Given
from .problems import UsageProblem
from .server_connection import ServerConnection, connect_to_server
from .user_code import UserCode, load_user_code, say_mocks, sources_of
from .worker_inside import current_version_command

_SIZES = (
    "max_concurrent_workflow_tasks",
    "max_concurrent_activities",
    "max_concurrent_local_activities",
    "max_cached_workflows",
    "max_concurrent_workflow_task_polls",
    "max_concurrent_activity_task_polls",
)
"""Arguments of Temporal's `Worker`."""


def worker(given: Given) -> None:
    """Run a worker."""
    require_version(given)
    settings = _settings(given)
    code = load_user_code(sources_of(given))
    say_mocks(honoured=given.mock)
    metrics = endpoint(given.metrics_address)
    work = _work(given, code, settings)
    execute(work, is_service=True, metrics=metrics, grace=given.grace)


def _settings(given: Given) -> JsonObject:
    """Return arguments of `create_worker`. Raises `UsageProblem`."""
    kinds = ("commands", "env", "hosts", "kinds")
    allowed = {kind: getattr(given, f"allow_{kind}") or None for kind in kinds}
    try:
        rates = parsed_rates(given.rate)
    except ConfigurationError as error:
        raise UsageProblem(f"--rate: {error}") from error
    same = (
        *("task_queue", "prompt_root", "mock", "on_failure"),
        *("deployment", "build_id", *_SIZES),
    )
    return {
        **{name: value for name in same if (value := getattr(given, name)) is not None},
        "graceful_shutdown_timeout": timedelta(seconds=given.grace),
        "model_rate": rates,
        "limits": WorkerLimits.from_environment().with_names(allowed),
    }


def require_version(given: Given) -> None:
    """Raises `UsageProblem` for a deployment without a build, and the reverse."""
    if bool(given.deployment) != bool(given.build_id):
        raise UsageProblem(
            f"--deployment {given.deployment!r} and --build-id {given.build_id!r} (or "
            "TEMPORAL_DEPLOYMENT_NAME and TEMPORAL_WORKER_BUILD_ID) go together: give both, or "
            "neither"
        )


def endpoint(address: str | None) -> str | None:
    """Return the `HOST:PORT` that an option names; None for none."""
    return f"127.0.0.1:{address}" if address and address.isdecimal() else address


async def _work(given: Given, code: UserCode, settings: JsonObject) -> None:
    tune_process()
    async with connect_to_server() as server, failing_soon(settings):
        await register_search_attributes(server.client)
        await require_tasks(server.client, given.task_queue)
        running = create_worker(
            server.client, tracer_provider=provider_of_process(say), **code.for_worker(), **settings
        )
        health = endpoint(given.health_address)
        async with serving_health(health, running) as works, running:
            _announce(server, code, given, settings["model_rate"])
            with works:
                await until_end(given)


def _announce(
    server: ServerConnection, code: UserCode, given: Given, rates: dict[str, float]
) -> None:
    queue, deployment, build_id = given.task_queue, given.deployment, given.build_id
    tools = ", ".join(code.tools) or "none"
    version = f", version {deployment}:{build_id}" if deployment else ""
    each = ", ".join(f"{name} {shown_rate(rate)}" for name, rate in rates.items())
    calls = f", model calls: {each}" if rates else ""
    place = f"Worker on {server.place}, task queue {queue!r}{version}"
    say(f"{place}, tools: {tools}{calls}", "strong")
    if given.as_json:
        about = {"taskQueue": queue, "rates": rates, "deployment": deployment, "buildId": build_id}
        answer({"tools": list(code.tools), **about})
    if deployment:
        command = current_version_command(deployment, build_id)
        say(f"It gets runs once its version is current: {command}")


async def until_end(given: Given) -> None:
    """Wait until the service is cancelled or, with --ends-with-stdin, until the process at the
    other end of stdin is gone.
    """
    if not given.ends_with_stdin:
        await asyncio.Event().wait()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    await reader.read()
