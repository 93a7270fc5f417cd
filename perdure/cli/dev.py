"""`perdure dev`: run the server, its UI and a reloading worker in one terminal."""

from __future__ import annotations

from pathlib import Path

from . import options
from .codec_server import codec_for_ui
from .console import say
from .metrics import chosen
from .running import execute
from .server import say_where
from .task_queue import DEFAULT_QUEUE


def dev(
    tools: options.Tools = None,
    guardrails: options.GuardrailNames = None,
    compactor: options.Compactors = None,
    credentials: options.Credentials = None,
    task_queue: options.TaskQueue = DEFAULT_QUEUE,
    prompt_root: options.PromptRoot = None,
    mock: options.Mock = False,
    watch: options.Watch = None,
    port: options.Port = None,
    ui_port: options.UiPort = None,
    metrics_port: options.MetricsPort = None,
    metrics_address: options.MetricsAddress = None,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
    as_json: options.AsJson = False,
) -> None:
    """Run the server, its UI and a reloading worker until Ctrl-C.

    The server is the embedded one. The worker restarts when a file in a watched folder changes.
    """
    from .reload import named_code, worker_arguments

    named = named_code(tools, guardrails, compactor, credentials)
    metrics = chosen(metrics_port, metrics_address)
    command = worker_arguments(named, task_queue, prompt_root, grace=5.0, metrics=metrics, mock=mock)
    execute(_develop(command, watch or [Path.cwd()], port, ui_port, as_json), is_service=True)


async def _develop(
    command: list[str], folders: list[Path], port: int | None, ui_port: int | None, as_json: bool
) -> None:
    from ..client.embedded.server import LocalServer
    from ..worker_limits import OPEN
    from .reload import supervise

    async with LocalServer(port=port, ui_port=ui_port) as server:
        say_where(server, as_json=as_json)
        async with codec_for_ui(server):
            say("run an agent in another terminal: perdure run AGENT.prompty    stop: Ctrl-C")
            await supervise(command, folders, {"TEMPORAL_ADDRESS": server.address, **OPEN.as_environment()})
