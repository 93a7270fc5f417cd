"""`perdure dev`, `server` and `setup`: the embedded server, a reloading worker, search
attributes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ..client.connection import Registration, set_up_namespace, type_name
from ..client.embedded.server import LocalServer
from ..client.server_settings import MIN_RETENTION_HOURS
from ..protocol.search_attributes import ALL
from ..worker_limits import OPEN
from . import shared_options as options
from .command import execute
from .console import answer, say
from .doctor.findings import Finding
from .doctor.server import retention_hours, short_retention, wrong_types
from .encryption import codec_for_ui
from .problems import FAILED
from .server_connection import ServerConnection, connect_to_server
from .shared_options import DEFAULT_QUEUE, endpoint
from .worker import KILL_AFTER_SECONDS, named_code, supervise, worker_arguments


def server(
    port: options.Port = None, ui_port: options.UiPort = None, as_json: options.AsJson = False
) -> None:
    """Run the embedded server and its UI until Ctrl-C.

    Its runs are kept in the data folder. It ends with the last perdure command that uses it.
    """
    execute(_serve(port, ui_port, as_json), is_service=True)


async def _serve(port: int | None, ui_port: int | None, as_json: bool) -> None:
    async with LocalServer(port=port, ui_port=ui_port) as running:
        say_where(running, as_json=as_json)
        async with codec_for_ui(running):
            await asyncio.Event().wait()


def say_where(running: LocalServer, *, as_json: bool) -> None:
    """Say where the server, its UI and its data are."""
    say(
        f"Temporal server: {running.address}   (for other programs: "
        f"TEMPORAL_ADDRESS={running.address})",
        "strong",
    )
    say(f"Temporal UI:     {running.ui_url}")
    say(f"data folder:     {running.folder}")
    if as_json:
        answer(
            {"address": running.address, "uiUrl": running.ui_url, "dataFolder": str(running.folder)}
        )


def dev(
    tools: options.Tools = None,
    guardrails: options.GuardrailNames = None,
    compactor: options.Compactors = None,
    credentials: options.Credentials = None,
    task_queue: options.TaskQueue = DEFAULT_QUEUE,
    prompt_root: options.PromptRoot = None,
    mock: options.Mock = False,
    watch: options.Watch = None,
    serve: Annotated[
        list[Path] | None,
        typer.Option(
            "--serve",
            metavar="AGENT.prompty",
            help="Serve this agent over HTTP too: perdure docs gateway.",
        ),
    ] = None,
    serve_port: Annotated[
        int, typer.Option(help="The port of that gateway; 0 is any free one.")
    ] = 8400,
    port: options.Port = None,
    ui_port: options.UiPort = None,
    metrics_address: options.MetricsAddress = None,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
    as_json: options.AsJson = False,
) -> None:
    """Run the server, its UI and a reloading worker until Ctrl-C.

    The server is the embedded one. The worker restarts when a file in a watched folder changes, and
    when it dies. With --serve there is a gateway, too, which restarts like it.
    """
    named = named_code(tools, guardrails, compactor, credentials)
    metrics = endpoint(metrics_address)
    command = worker_arguments(
        named, task_queue, prompt_root, grace=5.0, metrics=metrics, mock=mock
    )
    commands = [command, _serving(serve, serve_port, task_queue)] if serve else [command]
    execute(
        _develop(commands, watch or [Path.cwd()], port, ui_port, as_json),
        is_service=True,
        grace=KILL_AFTER_SECONDS,
    )


def _serving(agents: Sequence[Path], port: int, task_queue: str) -> list[str]:
    return [
        "serve",
        *map(str, agents),
        "--port",
        str(port),
        "--task-queue",
        task_queue,
        "--grace",
        "1",
    ]


async def _develop(
    commands: list[list[str]],
    folders: list[Path],
    port: int | None,
    ui_port: int | None,
    as_json: bool,
) -> None:
    async with LocalServer(port=port, ui_port=ui_port) as server:
        say_where(server, as_json=as_json)
        async with codec_for_ui(server):
            say("run an agent in another terminal: perdure run AGENT.prompty    stop: Ctrl-C")
            await supervise(
                commands, folders, {"TEMPORAL_ADDRESS": server.address, **OPEN.as_environment()}
            )


def setup(as_json: options.AsJson = False) -> None:
    """Register perdure's search attributes in the server's namespace.

    Needed once for each namespace, with the rights of an administrator; the embedded server has
    them. Exit code 1 when one exists with another type.
    """
    execute(_set_up(as_json))


async def _set_up(as_json: bool) -> int:
    async with connect_to_server() as server:
        found, namespace = await set_up_namespace(server.client), server.client.namespace
        hours = await retention_hours(server.client)
        unfit = [
            *wrong_types(namespace, found),
            *short_retention(namespace, hours or MIN_RETENTION_HOURS),
        ]
        _tell(server, found, unfit, as_json)
    return FAILED if found.mismatched else 0


def _tell(
    server: ServerConnection, found: Registration, unfit: Sequence[Finding], as_json: bool
) -> None:
    namespace = server.client.namespace
    expected = {key.name: type_name(int(key.indexed_value_type)) for key in ALL}
    wrong = [
        {"name": name, "type": type, "expected": expected[name]}
        for name, type in found.mismatched.items()
    ]
    if as_json:
        place = {"address": server.client.service_client.config.target_host, "namespace": namespace}
        told = {"existing": found.existing, "added": found.added, "mismatched": wrong}
        answer({**place, **told, "unfit": [each.as_json() for each in unfit]})
    else:
        for name, type in expected.items():
            state = (
                "added"
                if name in found.added
                else "exists"
                if name in found.existing
                else "has another type"
            )
            answer(f"{name:<16} {type:<8} {state}")
    for each in unfit:
        say(f"{each.text}. {each.do}", "bad" if each.level == "error" else "strong")
