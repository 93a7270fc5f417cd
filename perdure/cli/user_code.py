"""Loads what `--tools`, `--guardrails`, `--compactor` and `--credentials` name: functions and
objects of modules.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..agents import Agent
from ..commands import shell_word
from ..errors import ConfigurationError, LoadError
from ..guardrails import Compactor, require_guardrails
from ..json_types import JsonObject
from ..loading import load_objects, names_in
from ..settings.mocks import VARIABLE, is_set
from ..tools.handlers import load_tools
from .console import keep_stdout_for_answers, say
from .problems import UsageProblem


@dataclass
class UserCode:
    """User's code that a worker needs; false when there is none."""

    tools: dict[str, Callable[..., Any]] = field(default_factory=dict)
    guardrails: JsonObject = field(default_factory=dict)
    compactors: dict[str, Compactor] = field(default_factory=dict)
    credentials: Any = None
    """What `create_worker` takes as such."""
    sources: dict[str, list[str]] = field(default_factory=dict)
    """What was typed, by the option that it was typed for."""
    names_its_tools: bool = False
    """Whether a source of --tools names functions: then there are no tools but those that are
    loaded, whatever else `@tool` has registered when the sources were imported."""

    def __bool__(self) -> bool:
        return bool(self.sources)

    def for_worker(self) -> JsonObject:
        """Return the arguments of `create_worker` that are the user's code."""
        return {
            "tools": self.tools,
            "registered_tools": not self.names_its_tools,
            "guardrails": self.guardrails,
            "compactors": self.compactors,
            "credentials": self.credentials,
        }

    def as_options(self) -> str:
        """Return the options, as text to append to a command."""
        named = [(option, source) for option, sources in self.sources.items() for source in sources]
        return "".join(f" {option} {shell_word(source)}" for option, source in named)


CODE_OPTIONS = ("--tools", "--guardrails", "--compactor", "--credentials")


def load_user_code(
    tools: Sequence[str] = (),
    guardrails: Sequence[str] = (),
    compactors: Sequence[str] = (),
    credentials: Sequence[str] = (),
) -> UserCode:
    """Import everything that is named. Raises `UsageProblem`, which says what is wrong with which
    option.

    From here on, stdout is for the command's answer alone: what the user's code prints goes to
    stderr.
    """
    keep_stdout_for_answers()
    named = {
        "--tools": tools,
        "--guardrails": guardrails,
        "--compactor": compactors,
        "--credentials": credentials,
    }
    return UserCode(
        tools=_load_tools(tools),
        guardrails=_load_guardrails(guardrails),
        compactors=_load_compactors(compactors),
        credentials=_load_credentials(credentials),
        sources={option: list(sources) for option, sources in named.items() if sources},
        names_its_tools=_name_functions(tools),
    )


def load_named(option: str, sources: Sequence[str]) -> JsonObject:
    """Load the objects of all sources `module:name`, by name. Raises `UsageProblem`."""
    keep_stdout_for_answers()
    try:
        return {name: value for source in sources for name, value in load_objects(source).items()}
    except ConfigurationError as error:
        raise UsageProblem(f"{option}: {error}") from error


def _load_guardrails(sources: Sequence[str]) -> JsonObject:
    """Load the objects. Raises `UsageProblem` for one that is not a `Guardrails`, such as a
    function.
    """
    loaded = load_named("--guardrails", sources)
    try:
        require_guardrails(loaded)
    except TypeError as error:
        raise UsageProblem(
            f"--guardrails: {error}. Write, for example, NAME = Guardrails(tool=function), and "
            "name that"
        ) from error
    return loaded


def _load_credentials(sources: Sequence[str]) -> Any:
    """Load the one object that is named. Raises `UsageProblem` for one that can have no secrets."""
    for source in sources:
        for name, value in load_named("--credentials", [source]).items():
            if not callable(value) and not isinstance(value, Mapping):
                text = "expected a mapping from ids to secrets, or a function"
                raise UsageProblem(
                    f"--credentials {source}: {name} is {type(value).__name__}, {text}"
                )
            return value
    return None


def _load_compactors(sources: Sequence[str]) -> dict[str, Compactor]:
    """Load the functions, and the agents of `.prompty` files by the files' names without their
    ending.
    """
    files = [Path(source) for source in sources if source.endswith(".prompty")]
    named: dict[str, Compactor] = load_named(
        "--compactor", [source for source in sources if not source.endswith(".prompty")]
    )
    return {**named, **{file.stem: _load_compactor(file) for file in files}}


def _load_compactor(file: Path) -> Agent:
    from ..prompty.load import load  # with YAML, which a worker does without

    try:
        return load(file, defer_environment=True)
    except (LoadError, OSError) as error:
        raise UsageProblem(f"--compactor {file}: {error}") from error


def _name_functions(sources: Sequence[str]) -> bool:
    return any(map(names_in, sources))


def _load_tools(sources: Sequence[str]) -> dict[str, Callable[..., Any]]:
    try:
        return load_tools(*sources)
    except ConfigurationError as error:
        raise UsageProblem(f"--tools: {error}") from error


def say_mocks(*, honoured: bool) -> None:
    """Say which of the two is missing, where a worker is to honour answers that are not there, or
    the other way.
    """
    if honoured and not is_set(os.environ):
        say(f"{VARIABLE} is not set: models are asked, in spite of --mock", "strong")
    elif is_set(os.environ) and not honoured:
        say(f"{VARIABLE} is set, and has no effect: models are asked, unless --mock is given")


def require_mocks(*, asked: bool, scripted: str | None, quiet: bool) -> None:
    """Say that there are answers without effect, unless a run is to take them.

    Raises `UsageProblem` when it is to take answers that are not there, or such that exclude each
    other.
    """
    if not (asked or scripted or quiet):
        say_mocks(honoured=False)
    if asked and scripted:
        raise UsageProblem(
            "--mock and --scripted exclude each other: both answer in the place of the model"
        )
    if asked and not is_set(os.environ):
        raise UsageProblem(
            f"--mock: {VARIABLE} is not set. Expected a JSON list of answers, such as '[\"Hello\"]'"
        )
