"""The commands of `perdure`: their names, and the module that each one imports."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from .._version import __version__
from ..text import fault_text
from .completion import choose_server


class Entry(NamedTuple):
    """A row of the table."""

    name: str
    module: str
    """The module of its function in this room; the function has the command's name, with `_` for
    `-`."""
    help: str
    """The first paragraph of the function's docstring."""


GROUPS = {
    "Run agents": (
        Entry("run", "run", "Run an agent."),
        Entry("chat", "chat.chat", "Talk with an agent."),
        Entry("resume", "resume", "Start a worker for a run, and follow the run."),
        Entry(
            "fork",
            "fork",
            "Start a new run from another run's conversation, as it was before an iteration.",
        ),
        Entry("rerun", "rerun", "Replay a run against another model, and compare the two."),
        Entry("schedule", "schedule", "Start runs on a schedule: at times, or at intervals."),
    ),
    "Watch them": (
        Entry("watch", "read", "Show what a run does until it ends, and print its answer."),
        Entry("show", "show", "Show what a run did, a line for each iteration."),
        Entry("status", "read", "Print the status of a run."),
        Entry(
            "result",
            "read",
            "Wait for a run and print its answer; or print the result of one of its tool calls.",
        ),
        Entry("ls", "ls", "List runs; the latest start or end comes first."),
        Entry("events", "events", "Print a run's events, one per line."),
        Entry("messages", "read", "Print the conversation of a run."),
        Entry("export", "export", "Print a run's whole record as JSON lines."),
        Entry(
            "trace",
            "trace",
            "Print, write or send the OpenTelemetry trace of a run.",
        ),
    ),
    "Decide and steer": (
        Entry("approve", "decide", "Approve a waiting tool call."),
        Entry("deny", "decide", "Deny a waiting tool call."),
        Entry("answer", "decide", "Answer a question of a run's model."),
        Entry("complete", "complete", "Complete a tool call that waits for another system."),
        Entry("steer", "control", "Send a message to a run."),
        Entry("cancel", "control", "Cancel a run, or many."),
        Entry("pause", "pause", "Keep runs from making a further model or tool call."),
        Entry("go-on", "go_on", "Resume a held run, or many."),
        Entry(
            "delete",
            "delete",
            "Delete runs and sessions for good, with their child runs and their stored values.",
        ),
    ),
    "Write agents": (
        Entry(
            "lock",
            "lock",
            "Pin the tools of MCP servers, OpenAPI documents and A2A cards in AGENT.prompty.lock.",
        ),
        Entry("connect", "connect", "Grant workers tokens for an MCP server, in a browser."),
        Entry("validate", "validate", "Check an agent's file without calling anything."),
        Entry("docs", "docs", "Print a page of the documentation."),
    ),
    "Serve": (
        Entry("dev", "services", "Run the server, its UI and a reloading worker until Ctrl-C."),
        Entry("worker", "worker", "Run a worker until Ctrl-C or SIGTERM."),
        Entry(
            "serve",
            "serve",
            "Serve agents over HTTP until Ctrl-C, in the protocols of OpenAI, MCP, A2A, AG-UI, AI "
            "SDK, and its own.",
        ),
        Entry("server", "services", "Run the embedded server and its UI until Ctrl-C."),
        Entry(
            "setup", "services", "Register perdure's search attributes in the server's namespace."
        ),
        Entry(
            "doctor",
            "doctor.doctor",
            "Examine the server, its workers and its open runs; print findings and cures.",
        ),
        Entry("check", "check", "List open runs and sessions that would break with other tools."),
        Entry("sweep", "sweep", "Delete unreferenced values from the storage."),
        Entry(
            "codec-server",
            "encryption",
            "Run the codec server, which decodes payloads for the Temporal UI and CLI.",
        ),
        Entry(
            "encryption-key",
            "encryption",
            "Print a new key for PERDURE_ENCRYPTION_KEY, or for PERDURE_VOUCH_KEY.",
        ),
    ),
}
"""The commands by purpose, as the help lists them."""
ENTRIES = {entry.name: entry for entries in GROUPS.values() for entry in entries}


class PlainCommand(TyperCommand):
    """A command that reports an option's invalid value in plain words."""

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        """Read the command line as `TyperCommand` does, with its errors. Raises click's errors."""
        try:
            return super().make_context(*arguments, **settings)
        except typer.BadParameter as problem:
            # Typer's error comes from pydantic's ValidationError; importing pydantic for it would
            # be slow.
            details: list[Any] = getattr(problem.__cause__, "errors", list)()
            if details:
                problem.message = "; ".join(map(fault_text, details))
            raise
        except Exception as problem:
            # Click's own class for an unknown option, which typer does not export.
            if (option := getattr(problem, "option_name", None)) in _OF_PERDURE:
                place = f"{option} goes before the command: perdure {option} … {self.name}"
                problem.message = place  # type: ignore[attr-defined]
            raise


_OF_PERDURE = ("--address", "--namespace", "--data-dir")
"""Options that precede the command."""


class LazyCommands(TyperGroup):
    """Knows the names and helps of all commands, and imports only the typed one."""

    def __init__(self, **settings: Any) -> None:
        listed = {name: TyperCommand(name, help=entry.help) for name, entry in ENTRIES.items()}
        super().__init__(**{**settings, "commands": listed})

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command named by the first argument."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, found and load_command(ENTRIES[str(found.name)]), rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group."""
        for title, entries in GROUPS.items():
            width = formatter.width - 6 - max(map(len, self.commands))
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (each.name, self.commands[each.name].get_short_help_str(width))
                        for each in entries
                    ]
                )


WITHOUT_CODEC = frozenset({"lock", "connect", "validate", "docs", "setup", "encryption-key"})
"""Commands that read no payload."""


_codec = typer.Typer(add_completion=False)


@_codec.command()
def _choose_codec(
    codec: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            help=(
                "A PayloadCodec of yours, which writes and reads payloads; default: PERDURE_CODEC."
            ),
            expose_value=False,
            callback=lambda value: choose_server({"codec": value}),
        ),
    ] = None,
) -> None:
    """Has the option of all commands."""


def load_command(entry: Entry) -> Any:
    """Import the command of an entry, and add the option that all commands share which read
    payloads.

    A `typer.Typer` in its place is a command with subcommands.
    """
    loaded = _loaded(entry)
    for command in (
        () if entry.name in WITHOUT_CODEC else getattr(loaded, "commands", {"": loaded}).values()
    ):
        command.params += get_command(_codec).params
    return loaded


def _loaded(entry: Entry) -> Any:
    function = getattr(import_module(f".{entry.module}", __package__), entry.name.replace("-", "_"))
    if isinstance(function, typer.Typer):
        return get_command(function)
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(entry.name, cls=getattr(function, "command_class", PlainCommand))(function)
    return get_command(single)


app = typer.Typer(
    name="perdure",
    cls=LazyCommands,
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
        str | None,
        typer.Option(metavar="HOST:PORT", help="The Temporal server; default: TEMPORAL_ADDRESS."),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The Temporal namespace; default: TEMPORAL_NAMESPACE."),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The embedded server's data; default: PERDURE_HOME."),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    choose_server({"address": address, "namespace": namespace, "data_dir": data_dir})
