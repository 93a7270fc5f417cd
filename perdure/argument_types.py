"""Checks the arguments of public functions: the error for a wrong type names the argument and the
expected type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from types import ModuleType
from typing import Any, NamedTuple

from .agents import Agent
from .guardrails import Guardrails
from .json_types import JsonView
from .options import RunOptions
from .text import did_you_mean


class Expected(NamedTuple):
    """The accepted types of an argument."""

    words: str
    fits: Callable[[Any], bool]
    may_be_absent: bool = True
    """Whether None is accepted."""


def is_list(value: Any) -> bool:
    """Return whether it is a sequence, but not a text."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def of_type(words: str, *types: type, may_be_absent: bool = True) -> Expected:
    """Return the description of an argument of these types."""
    return Expected(words, lambda value: isinstance(value, types), may_be_absent)


_FUNCTIONS = "a list of functions, such as [f], a Toolset, or a mapping from names to functions"


def _is_toolset(value: Any) -> bool:
    """Return whether it is a `perdure.Toolset`, without importing that."""
    return hasattr(value, "prefixed") and hasattr(value, "declarations")


_ARGUMENTS = {
    "agent": of_type(
        "the path of a .prompty file, or an Agent", Agent, str, PathLike, may_be_absent=False
    ),
    "path": of_type("the path of a .prompty file", str, PathLike, may_be_absent=False),
    "inputs": of_type(
        "a mapping from the names of inputs to their values, or the text of the only one",
        Mapping,
        str,
    ),
    "options": of_type("RunOptions, or a mapping of their fields", RunOptions, Mapping),
    "messages": Expected("a list of messages", is_list),
    "parts": Expected("a list of ImagePart, FilePart and AudioPart", is_list, may_be_absent=False),
    "message": of_type("a text", str, may_be_absent=False),
    "tools": Expected(
        _FUNCTIONS, lambda value: isinstance(value, Mapping) or is_list(value) or _is_toolset(value)
    ),
    "tool": Expected(
        "a function",
        lambda value: (
            callable(value) or isinstance(value, ModuleType | Agent) or _is_toolset(value)
        ),
    ),
    "tool_kinds": of_type("a mapping from kinds to objects of ToolKind", Mapping),
    "resources": of_type("a mapping from types to functions", Mapping),
    "guardrails": of_type("Guardrails(input=…, output=…, tool=…)", Guardrails),
    "compactor": Expected(
        "a function, an Agent, or the path of a .prompty file",
        lambda value: callable(value) or isinstance(value, Agent | str | PathLike),
    ),
    "id": of_type("a text", str),
    "run": of_type("a run's id, which is a text", str, may_be_absent=False),
    "task_queue": of_type("a text", str, may_be_absent=False),
    "on_event": Expected("a function", callable),
    "approve": Expected("a function", callable),
    "answer": Expected("a function", callable),
}


def require(**arguments: Any) -> None:
    """Check arguments by their names. Raises TypeError with the actual and the expected type."""
    for name, value in arguments.items():
        require_type(name, value, _ARGUMENTS[name])


def require_type(name: str, value: Any, expected: Expected) -> None:
    """Raise TypeError for an argument of another than the expected type."""
    if value is None and expected.may_be_absent:
        return
    if value is None or not expected.fits(value):
        raise TypeError(
            f"{name}={value!r:.80}: expected {expected.words}, got {type(value).__name__}"
        )


def require_each(name: str, values: JsonView | None, kind: str) -> None:
    """Raise TypeError for anything but a mapping, and for values in it that are not of that
    kind.
    """
    require_type(name, values, of_type(f"a mapping from names to {name}", Mapping))
    for key, value in (values or {}).items():
        require_type(f"{name}[{key!r}]", value, _ARGUMENTS[kind]._replace(may_be_absent=False))


def require_tools(tools: Any) -> None:
    """Raise TypeError for anything but a collection of functions."""
    require(tools=tools)
    if _is_toolset(tools):
        return
    for each in (tools.values() if isinstance(tools, Mapping) else tools) or ():
        require_type("a tool", each, _ARGUMENTS["tool"]._replace(may_be_absent=False))


def require_known(call: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise TypeError for the first name that is not an argument of the function, with the most
    similar one.
    """
    names = list(known)
    for name in given:
        if name not in names:
            raise TypeError(
                f"{call}() got an unexpected keyword argument {name!r}{did_you_mean(name, names)}"
            )


def options_of(given: RunOptions | JsonView | None) -> RunOptions | None:
    """Return the options; a mapping holds some of their fields.

    Raises TypeError for anything else and for an unknown field, pydantic's ValidationError for its
    value.
    """
    require(options=given)
    if not isinstance(given, Mapping):
        return given
    require_known("RunOptions", given, RunOptions.model_fields)
    return RunOptions.model_validate(dict(given))
