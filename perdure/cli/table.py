"""The table of all commands, by purpose, as the help lists them: read from `commands.json`, so that
help imports no command's module.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..json_types import JsonObject

DEFAULT_QUEUE = "perdure"
"""The task queue of runs and workers that name none."""
_TABLE = json.loads(Path(__file__).with_name("commands.json").read_text(encoding="utf-8"))


class CommandParameter(NamedTuple):
    """An option or an argument of a command."""

    name: str
    help: str
    argument: bool = False
    """Whether it is positional."""
    names: str = ""
    """An option's names, separated by spaces; by default that of its parameter."""
    metavar: str | None = None
    """The placeholder of its value; None for a flag, and for a choice of words."""
    type: str | list[str] = "str"
    """The type of its value (`str`, `int`, `float`, `path`), or the words to choose from."""
    default: Any = None
    least: float | None = None
    """The least number."""
    required: bool = True
    """Whether an argument may be left out."""
    many: bool = False
    """Whether it may be given several times."""
    sets: str = ""
    """The variable of this process's environment that gets its value."""
    variable: str | None = None
    """The environment variable that gives its default."""
    hidden: bool = False
    title: str = ""
    """The heading above it in the help; by default the one of its name."""
    may_change: bool = False
    """Whether a run option may change when a held run goes on."""


class Command(NamedTuple):
    """A command. Its function takes a `Given`; a coroutine function returns the exit code."""

    help: str
    """One sentence."""
    function: str = ""
    """Its module in this room, and its name: `module:name`."""
    parameters: list[str | JsonObject] = []
    """Parameters of its own, names of shared ones (`name`, or `name=shared name`) and of groups of
    these (`*group`)."""
    more: str = ""
    """Further paragraphs of its help."""
    run_options: bool | str = False
    """Whether it has an option for each field of `RunOptions`; `held` for those that `perdure
    go-on` may change."""
    reads_payloads: bool = True
    commands: dict[str, JsonObject] = {}
    """Its subcommands, in the place of a function."""

    def all_parameters(self) -> list[CommandParameter]:
        """Return its parameters, in the order of its help."""
        return list(parameters_of(self.parameters))

    def subcommands(self) -> dict[str, Command]:
        """Return its subcommands, by name."""
        return {name: Command(**each) for name, each in self.commands.items()}


def parameters_of(named: Iterable[str | JsonObject]) -> Iterator[CommandParameter]:
    """Yield the parameters, with those of groups in their place."""
    for each in named:
        if not isinstance(each, str):
            yield CommandParameter(**each)
        elif each.startswith("*"):
            yield from parameters_of(_TABLE["groups"][each[1:]])
        else:
            name, _, shared = each.partition("=")
            yield CommandParameter(name, **_TABLE["parameters"][shared or name])


GROUPS = {
    title: {name: Command(**each) for name, each in commands.items()}
    for title, commands in _TABLE["commands"].items()
}
COMMANDS = {name: command for commands in GROUPS.values() for name, command in commands.items()}
SERVER = list(parameters_of(["*server"]))
"""Options of `perdure`. Each command takes them too, which its help does not repeat."""
