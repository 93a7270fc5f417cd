"""All commands of `perdure`. Nothing heavy is imported before a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .._version import __version__
from .answer import answer
from .approve import approve
from .cancel import cancel
from .chat import chat
from .codec_server import codec_server
from .completion import choose_server
from .deny import deny
from .dev import dev
from .encryption_key import encryption_key
from .events import events
from .export import export
from .fork import fork
from .ls import ls
from .messages import messages
from .rerun import rerun
from .result import result
from .resume import resume
from .run import run
from .run_options import CommandWithRunOptions
from .schedule import schedule
from .server import server
from .setup import setup
from .show import show
from .status import status
from .steer import steer
from .trace import CommandThatSends, trace
from .validate import validate
from .watch import watch
from .worker import worker

app = typer.Typer(
    name="perdure",
    help="Runs LLM agents, written as .prompty files, as durable Temporal workflows.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
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
    choose_server({"address": address, "namespace": namespace, "data_dir": data_dir})


COMMANDS = (
    *(run, chat, resume, fork, rerun, dev, worker, server, setup),
    *(watch, show, result, ls, status, events, messages, export, trace),
    *(codec_server, encryption_key),
    *(steer, cancel, approve, deny, answer, validate),
)

_CLASSES = {**dict.fromkeys((run, chat, fork, rerun), CommandWithRunOptions), trace: CommandThatSends}

for _command in COMMANDS:
    app.command(cls=_CLASSES.get(_command))(_command)

app.add_typer(schedule)
