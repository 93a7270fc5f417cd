"""`perdure dev`, `server` and `setup`: the embedded server, a reloading worker, search
attributes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from ..client.connection import Registration, set_up_namespace
from ..client.embedded.server import LocalServer
from ..client.server_settings import MIN_RETENTION_HOURS
from ..prompty.worker_limits import OPEN
from .command import execute
from .console import answer, say
from .doctor.findings import Finding
from .doctor.server import retention_hours, short_retention, wrong_types
from .encryption import codec_for_ui
from .given import Given
from .problems import DONE, FAILED
from .server_connection import ServerConnection, connect_to_server
from .supervise import KILL_AFTER_SECONDS, as_words, supervise


def server(given: Given) -> None:
    """Run the embedded server."""
    execute(_serve(given, []), is_service=True)


def dev(given: Given) -> None:
    """Run the embedded server, a worker and perhaps a gateway."""
    code = ("tools", "guardrails", "compactor", "credentials")
    same = (*code, "task_queue", "prompt_root", "mock", "metrics_address")
    named = {name: getattr(given, name) for name in same}
    commands = [["worker", *as_words(named), "--grace", "5"]]
    if given.serve:
        place = {"port": given.serve_port, "task_queue": given.task_queue, "grace": 1}
        commands.append(["serve", *map(str, given.serve), *as_words(place)])
    execute(_serve(given, commands), is_service=True, grace=KILL_AFTER_SECONDS)


async def _serve(given: Given, commands: Sequence[Sequence[str]]) -> None:
    """Run the server, and these commands on it."""
    async with LocalServer(port=given.port, ui_port=given.ui_port) as running:
        say_where(running, as_json=given.as_json)
        async with codec_for_ui(running):
            if not commands:
                await asyncio.Event().wait()
            say("run an agent in another terminal: perdure run AGENT.prompty    stop: Ctrl-C")
            environment = {"TEMPORAL_ADDRESS": running.address, **OPEN.as_environment()}
            await supervise(commands, given.watch or [Path.cwd()], environment)


def say_where(running: LocalServer, *, as_json: bool) -> None:
    """Report the addresses of the server and its UI, and the data folder."""
    address = running.address
    say(f"Temporal server: {address}   (for other programs: TEMPORAL_ADDRESS={address})", "strong")
    say(f"Temporal UI:     {running.ui_url}")
    say(f"data folder:     {running.folder}")
    if as_json:
        answer({"address": address, "uiUrl": running.ui_url, "dataFolder": str(running.folder)})


async def setup(given: Given) -> int:
    """Register the search attributes; return the exit code, 1 for one of another type."""
    async with connect_to_server() as server:
        found, namespace = await set_up_namespace(server.client), server.client.namespace
        hours = await retention_hours(server.client)
        unfit = [
            *wrong_types(namespace, found),
            *short_retention(namespace, hours or MIN_RETENTION_HOURS),
        ]
        _print_outcome(server, found, unfit, given.as_json)
    return FAILED if found.mismatched else DONE


def _print_outcome(
    server: ServerConnection, found: Registration, unfit: Sequence[Finding], as_json: bool
) -> None:
    client = server.client
    if as_json:
        about = {"address": client.service_client.config.target_host, "namespace": client.namespace}
        unfit_ones = [each.as_json() for each in unfit]
        answer({**about, "existing": found.existing, "added": found.added, "unfit": unfit_ones})
    else:
        for state, names in {"exists": found.existing, "added": found.added}.items():
            for name in names:
                answer(f"{name:<16} {state}")
    for each in unfit:
        say(f"{each.text}. {each.do}", "bad" if each.level == "error" else "strong")
