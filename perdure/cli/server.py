"""`perdure server`: the embedded Temporal server in the foreground."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from .console import say
from .running import execute

if TYPE_CHECKING:
    from ..client.embedded.server import LocalServer

Port = Annotated[int | None, typer.Option("--port", help="The server's port; default: 7233, or any free one.")]
UiPort = Annotated[int | None, typer.Option("--ui-port", help="The UI's port; default: 8233, or any free one.")]


def server(port: Port = None, ui_port: UiPort = None) -> None:
    """Run the embedded server and its UI, until Ctrl-C.

    Its runs are kept in the data folder. It ends when no other perdure command uses it any more.
    """
    execute(_serve(port, ui_port), is_service=True)


async def _serve(port: int | None, ui_port: int | None) -> None:
    from ..client.embedded.server import LocalServer

    async with LocalServer(port=port, ui_port=ui_port) as running:
        describe(running)
        await asyncio.Event().wait()


def describe(running: LocalServer) -> None:
    """Write where the server is."""
    say(f"Temporal server: {running.address}   (for other programs: TEMPORAL_ADDRESS={running.address})", "strong")
    say(f"Temporal UI:     {running.ui_url}")
    say(f"data folder:     {running.folder}")
