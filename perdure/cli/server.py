"""`perdure server`: run the embedded Temporal server in the foreground."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from . import options
from .codec_server import codec_for_ui
from .console import answer, say
from .running import execute

if TYPE_CHECKING:
    from ..client.embedded.server import LocalServer


def server(port: options.Port = None, ui_port: options.UiPort = None, as_json: options.AsJson = False) -> None:
    """Run the embedded server and its UI until Ctrl-C.

    Its runs are kept in the data folder. It ends with the last perdure command that uses it.
    """
    execute(_serve(port, ui_port, as_json), is_service=True)


async def _serve(port: int | None, ui_port: int | None, as_json: bool) -> None:
    from ..client.embedded.server import LocalServer

    async with LocalServer(port=port, ui_port=ui_port) as running:
        say_where(running, as_json=as_json)
        async with codec_for_ui(running):
            await asyncio.Event().wait()


def say_where(running: LocalServer, *, as_json: bool) -> None:
    """Say where the server, its UI and its data are."""
    say(f"Temporal server: {running.address}   (for other programs: TEMPORAL_ADDRESS={running.address})", "strong")
    say(f"Temporal UI:     {running.ui_url}")
    say(f"data folder:     {running.folder}")
    if as_json:
        answer({"address": running.address, "uiUrl": running.ui_url, "dataFolder": str(running.folder)})
