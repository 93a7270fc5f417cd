"""Builds click's commands from the table; the module of a command is imported when it runs."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from .._version import __version__
from .given import Given, option_name
from .problems import INTERRUPTED
from .table import GROUPS, SERVER, Command, CommandParameter, parameters_of

HELP = {"help_option_names": ["-h", "--help"]}
_OF_SERVER = [each.name for each in SERVER]
_TITLES: Mapping[str, Collection[str]] = {
    "Arguments": (),
    "Options": (),
    "The model": ("model", "provider", "endpoint", "scripted"),
    "Code": ("tools", "guardrails", "compactor", "credentials", "prompt_root"),
    "Output": ("as_json", "quiet", "yes", "log_level", "log_format"),
    "Limits and time-outs": (),
    "How the run works": (),
}


@cache
def _options_of_runs() -> list[CommandParameter]:
    """Return an option for each field of `RunOptions`.

    They come from the file that `docs/write_cli.py` makes of the model: importing the model takes
    longer than all of the help.
    """
    fields = json.loads(Path(__file__).with_name("run_options.json").read_text(encoding="utf-8"))
    return [CommandParameter(name, **field) for name, field in fields.items()]


def _click_type(of: CommandParameter) -> Any:
    if of.type == "path":
        return click.Path(path_type=Path)
    if isinstance(of.type, list):
        return click.Choice(of.type)
    if of.least is not None:
        return click.IntRange(int(of.least)) if of.type == "int" else click.FloatRange(of.least)
    return {"int": int, "float": float}.get(of.type, str)


class _Argument(click.Argument):
    """An argument with a line in the help."""

    def __init__(self, of: CommandParameter) -> None:
        super().__init__(
            [of.name],
            type=_click_type(of),
            metavar=of.metavar,
            required=of.required,
            nargs=-1 if of.many else 1,
        )
        self._help = of.help

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        """Return the placeholder and the help."""
        return self.make_metavar(ctx), self._help


class _Option(click.Option):
    """An option of the table, which may set a variable of the environment."""

    def __init__(self, of: CommandParameter) -> None:
        is_flag = of.metavar is None and not isinstance(of.type, list)
        super().__init__(
            [of.name, *(of.names or option_name(of.name)).split()],
            type=bool if is_flag else _click_type(of),
            metavar=of.metavar,
            help=of.help,
            default=of.default if of.default is not None or not is_flag else False,
            show_default=not is_flag and of.default not in (None, ""),
            is_flag=is_flag,
            multiple=of.many,
            envvar=of.variable,
            hidden=of.hidden,
        )
        self.title = of.title
        self._sets = of.sets

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """Convert the value, and set the variable."""
        found = super().process_value(ctx, value)
        if self._sets and found is not None:
            os.environ[self._sets] = str(found)
        return found


def _parameters(of: Iterable[CommandParameter]) -> list[click.Parameter]:
    return [_Argument(each) if each.argument else _Option(each) for each in of]


class TableCommand(click.Command):
    """A command of the table."""

    def __init__(self, name: str, of: Command) -> None:
        options = [
            option
            for option in (_options_of_runs() if of.run_options else ())
            if of.run_options is True or option.may_change
        ]
        codec = parameters_of(["codec"] if of.reads_payloads else [])
        super().__init__(
            name,
            help=f"{of.help}\n\n{of.more}".rstrip(),
            params=_parameters([*of.all_parameters(), *SERVER, *codec, *options]),
            context_settings=HELP,
        )
        self._of, self._options = of, [option.name for option in options]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each group of parameters."""
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in _TITLES}
        for each in self.get_params(ctx):
            record = None if each.name in _OF_SERVER else each.get_help_record(ctx)
            if record:
                sections[self._title(each)].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def _title(self, of: click.Parameter) -> str:
        if isinstance(of, click.Argument):
            return "Arguments"
        if not self._options:
            return "Options"
        if not isinstance(of, _Option):  # click's own --help
            return "Output"
        named = [title for title, names in _TITLES.items() if of.name in names]
        return of.title or (named or ["Options"])[0]

    def invoke(self, ctx: click.Context) -> None:
        """Import the command's function, and call it. Raises what it raises."""
        typed = {
            name: ctx.params.pop(name)
            for name in self._options
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        }
        given = Given(**{**ctx.params, "options": typed, "command": ctx.info_name})
        try:
            done = _function(self._of.function)(given)
            if inspect.iscoroutine(done):
                from .command import execute  # with asyncio, which a few commands do without

                execute(done)
        except KeyboardInterrupt:  # click would print "Aborted!"
            ctx.exit(INTERRUPTED)


def _function(place: str) -> Callable[[Given], Any]:
    module, _, name = place.partition(":")
    found: Callable[[Given], Any] = getattr(import_module(f".{module}", __package__), name)
    return found


class TableGroup(click.Group):
    """Commands of the table, in groups with headings; each is built when it is used."""

    def __init__(self, groups: Mapping[str, Mapping[str, Command]], **settings: Any) -> None:
        super().__init__(no_args_is_help=True, context_settings=HELP, **settings)
        self._groups = groups
        self._all = {name: each for group in groups.values() for name, each in group.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the table's order."""
        return list(self._all)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name; None for an unknown one."""
        if (found := self._all.get(cmd_name)) is None:
            return None
        if found.commands:
            return TableGroup({"Commands": found.subcommands()}, name=cmd_name, help=found.help)
        return TableCommand(cmd_name, found)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each group."""
        width = formatter.width - 6 - max(map(len, self._all))
        for title, group in self._groups.items():
            short = {name: click.Command(name, help=each.help) for name, each in group.items()}
            with formatter.section(title):
                formatter.write_dl(
                    [(name, each.get_short_help_str(width)) for name, each in short.items()]
                )


app = TableGroup(
    GROUPS,
    name="perdure",
    help="Runs LLM agents, written as .prompty files, as durable Temporal workflows.",
    params=[
        *_parameters(SERVER),
        *click.version_option(__version__, message="%(version)s", help="Print the version.")(
            click.Command("")
        ).params,
    ],
)
