"""All commands of `perdure`. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from .._version import __version__
from . import (
    approvals,
    dev,
    reading,
    result,
    run,
    server,
    steering,
    validate,
    worker,
)
from . import (
    ls as listing,
)

app = typer.Typer(
    name="perdure",
    help="Runs LLM agents, written as .prompty files, as durable Temporal workflows.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def perdure(
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The Temporal server; default: TEMPORAL_ADDRESS.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(metavar="NAME", help="The Temporal namespace; default: TEMPORAL_NAMESPACE.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The embedded server's data; default: PERDURE_HOME.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    # Options are the environment of this process, so that everything below, workers too, sees one set-up.
    chosen = {"TEMPORAL_ADDRESS": address, "TEMPORAL_NAMESPACE": namespace, "PERDURE_HOME": data_dir}
    os.environ.update({name: str(value) for name, value in chosen.items() if value})


for _command in (
    run.run,
    dev.dev,
    worker.worker,
    server.server,
    result.result,
    listing.ls,
    reading.status,
    reading.events,
    reading.messages,
    steering.steer,
    steering.cancel,
    approvals.approve,
    approvals.deny,
    validate.validate,
):
    app.command()(_command)
