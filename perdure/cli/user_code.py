"""Loads the functions and objects that `--tools`, `--guardrails`, `--compactor` and `--credentials`
name.
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
from .given import Given
from .problems import UsageProblem

CODE_OPTIONS = ("--tools", "--guardrails", "--compactor", "--credentials")
Sources = Mapping[str, Sequence[str]]
"""Option → the names that were typed for it."""


@dataclass
class UserCode:
    """User's code that a worker needs; false when there is none."""

    tools: dict[str, Callable[..., Any]] = field(default_factory=dict)
    guardrails: JsonObject = field(default_factory=dict)
    compactors: dict[str, Compactor] = field(default_factory=dict)
    credentials: Any = None
    """The argument of `create_worker`."""
    sources: Sources = field(default_factory=dict)
    names_its_tools: bool = False
    """Whether a source of --tools names functions: then there are no tools but the loaded ones,
    even if `@tool` has registered others during the import."""

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

    def hooks(self) -> dict[str, str]:
        """Return the options of a run that name its guardrails and compactor. Raises `UsageProblem`
        for several of a kind.
        """
        found: dict[str, Mapping[str, Any]] = {
            "guardrails": self.guardrails,
            "compactor": self.compactors,
        }
        for option, named in found.items():
            if len(named) > 1:
                raise UsageProblem(
                    f"--{option} names {', '.join(named)}, expected one: a run uses one"
                )
        return {field: name for field, named in found.items() for name in named}


def sources_of(given: Given) -> Sources:
    """Return the sources of code that a command line names."""
    named = {option: getattr(given, option.removeprefix("--")) for option in CODE_OPTIONS}
    return {
        option: [value] if isinstance(value, str) else list(value)
        for option, value in named.items()
        if value
    }


def source_options(sources: Sources) -> str:
    """Return the options as text to append to a command."""
    return "".join(
        f" {option} {shell_word(source)}" for option, each in sources.items() for source in each
    )


def load_user_code(sources: Sources) -> UserCode:
    """Import the sources. Raises `UsageProblem`, which names the wrong option.

    From here on, stdout is for the command's answer alone: output of the user's code goes to
    stderr.
    """
    keep_stdout_for_answers()
    tools, guardrails, compactors, credentials = (
        sources.get(option, ()) for option in CODE_OPTIONS
    )
    try:
        loaded = load_tools(*tools)
    except ConfigurationError as error:
        raise UsageProblem(f"--tools: {error}") from error
    return UserCode(
        loaded,
        _load_guardrails(guardrails),
        _load_compactors(compactors),
        _load_credentials(credentials),
        sources,
        any(map(names_in, tools)),
    )


def load_named(option: str, sources: Sequence[str]) -> JsonObject:
    """Load the objects of all sources `module:name`, by name. Raises `UsageProblem`."""
    keep_stdout_for_answers()
    try:
        return {name: value for source in sources for name, value in load_objects(source).items()}
    except ConfigurationError as error:
        raise UsageProblem(f"{option}: {error}") from error


def load_function(option: str, source: str) -> Callable[..., Any]:
    """Load the one function that the source names. Raises `UsageProblem`."""
    found = list(load_named(option, [source]).values())
    if len(found) != 1 or not callable(found[0]):
        raise UsageProblem(f"{option} {source!r}: expected module:function or file.py:function")
    function: Callable[..., Any] = found[0]
    return function


def _load_guardrails(sources: Sequence[str]) -> JsonObject:
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
    for name, value in load_named("--credentials", sources).items():
        if not callable(value) and not isinstance(value, Mapping):
            raise UsageProblem(
                f"--credentials {sources[0]}: {name} is {type(value).__name__}, expected a mapping "
                "from ids to secrets, or a function"
            )
        return value
    return None


def _load_compactors(sources: Sequence[str]) -> dict[str, Compactor]:
    """Load the functions, and the agents of `.prompty` files by the files' names without their
    ending.
    """
    files = [Path(source) for source in sources if source.endswith(".prompty")]
    named = [source for source in sources if not source.endswith(".prompty")]
    return {
        **load_named("--compactor", named),
        **{file.stem: _load_compactor(file) for file in files},
    }


def _load_compactor(file: Path) -> Agent:
    from ..prompty.load import load  # with YAML, which a worker does without

    try:
        return load(file, defer_environment=True)
    except (LoadError, OSError) as error:
        raise UsageProblem(f"--compactor {file}: {error}") from error


def say_mocks(*, honoured: bool) -> None:
    """Mention mock answers that have no effect, or that are missing."""
    if honoured and not is_set(os.environ):
        say(f"{VARIABLE} is not set: --mock has no effect, and models are called", "strong")
    elif is_set(os.environ) and not honoured:
        say(f"{VARIABLE} is set and has no effect here: models are called (perdure docs kaos)")
