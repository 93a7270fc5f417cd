"""All commands of `perdure`. Nothing heavy is imported before a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .._version import __version__
from .chat.chat import chat
from .completion import choose_server
from .control import cancel, steer
from .decide import answer, approve, deny
from .docs import docs
from .encryption import codec_server, encryption_key
from .events import events
from .export import export
from .fork import fork
from .ls import ls
from .read import messages, result, status, watch
from .rerun import rerun
from .resume import resume
from .run import run
from .run_options import CommandWithRunOptions
from .schedule import schedule
from .services import dev, server, setup
from .show import show
from .trace import CommandThatSends, trace
from .validate import validate
from .worker import worker

GROUPS = {
    "Run agents": ("run", "chat", "resume", "fork", "rerun", "schedule"),
    "See what they do": ("watch", "show", "status", "result", "ls", "events", "messages", "export", "trace"),
    "Decide and steer": ("approve", "deny", "answer", "steer", "cancel"),
    "Write agents": ("validate", "docs"),
    "Serve": ("dev", "worker", "server", "setup", "codec-server", "encryption-key"),
}


class CommandsInGroups(TyperGroup):
    """Lists the commands in its help by what they are for."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group."""
        for title, names in GROUPS.items():
            found = [(name, command) for name in names if (command := self.get_command(ctx, name))]
            width = formatter.width - 6 - max(map(len, self.commands))
            with formatter.section(title):
                formatter.write_dl([(name, command.get_short_help_str(width)) for name, command in found])


app = typer.Typer(
    name="perdure",
    cls=CommandsInGroups,
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
    *(steer, cancel, approve, deny, answer, validate, docs),
)

_CLASSES = {**dict.fromkeys((run, chat, fork, rerun), CommandWithRunOptions), trace: CommandThatSends}

for _command in COMMANDS:
    app.command(cls=_CLASSES.get(_command))(_command)

app.add_typer(schedule)
