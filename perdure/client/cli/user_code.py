"""Loads what `--tools`, `--guardrails` and `--compactor` name: functions and objects of the user's own modules."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from .problems import UsageProblem


@dataclass
class UserCode:
    """What a worker needs beside perdure itself; false when that is nothing."""

    tools: list[Callable[..., Any]] = field(default_factory=list)
    guardrails: dict[str, Any] = field(default_factory=dict)
    compactors: dict[str, Callable[..., Any]] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    """The command-line options that name all this."""

    def __bool__(self) -> bool:
        return bool(self.options)

    def as_options(self) -> str:
        """To be appended to a command."""
        return "".join(f" {option}" for option in self.options)


def load_user_code(
    tools: Sequence[str] = (), guardrails: Sequence[str] = (), compactors: Sequence[str] = ()
) -> UserCode:
    """Import everything that is named; raises UsageProblem that says which part of which option is wrong."""
    return UserCode(
        tools=[tool for spec in tools for tool in _load_tools(spec)],
        guardrails={name: value for spec in guardrails for name, value in _load_named("--guardrails", spec)},
        compactors={name: value for spec in compactors for name, value in _load_named("--compactor", spec)},
        options=as_options(tools, guardrails, compactors),
    )


def as_options(tools: Sequence[str], guardrails: Sequence[str], compactors: Sequence[str]) -> tuple[str, ...]:
    """`--tools a:b`, … : the options that name this code."""
    named = {"--tools": tools, "--guardrails": guardrails, "--compactor": compactors}
    return tuple(f"{option} {spec}" for option, specs in named.items() for spec in specs)


def _load_tools(spec: str) -> Iterable[Callable[..., Any]]:
    """`module:a,b` gives these functions (or the lists of functions of that name); `module` gives all its `@tool`s."""
    module, names = load_module("--tools", spec)
    if not names:
        tools = [value for value in vars(module).values() if hasattr(value, "__tool__")]
        if not tools:
            raise UsageProblem(
                f"--tools {spec!r}: the module has no function with @tool. Decorate one, or name functions: "
                f"--tools {spec}:function"
            )
        return tools
    return [tool for name in names for tool in _callables("--tools", spec, name, getattr(module, name))]


def _callables(option: str, spec: str, name: str, value: Any) -> Iterable[Callable[..., Any]]:
    values = value if isinstance(value, list | tuple) else [value]
    for each in values:
        if not callable(each):
            raise UsageProblem(f"{option} {spec!r}: {name} holds {each!r}, expected a function or a list of functions")
    return values


def _load_named(option: str, spec: str) -> Iterable[tuple[str, Any]]:
    module, names = load_module(option, spec)
    if not names:
        raise UsageProblem(f"{option} {spec!r}: expected module:name, for example {option} {spec}:careful")
    return [(name, getattr(module, name)) for name in names]


def load_module(option: str, spec: str) -> tuple[ModuleType, list[str]]:
    """The module and the names, which exist in it, of `module:a,b`; a module may be a `path/to/file.py`."""
    place, _, listed = spec.partition(":")
    names = [name.strip() for name in listed.split(",") if name.strip()]
    module = _import_file(option, spec, Path(place)) if place.endswith(".py") else _import_name(option, spec, place)
    for name in names:
        if not hasattr(module, name):
            public = sorted(name for name, value in vars(module).items() if callable(value) and name[0] != "_")
            raise UsageProblem(f"{option} {spec!r}: {place} has no {name!r}; it has {', '.join(public) or 'nothing'}")
    return module, names


def _import_name(option: str, spec: str, name: str) -> ModuleType:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _import_problem(option, spec, error) from error
        raise UsageProblem(
            f"{option} {spec!r}: there is no module {name!r} in {str(Path.cwd())!r} or among the installed packages. "
            f"Expected module:function or path/to/file.py:function."
        ) from error
    except Exception as error:
        raise _import_problem(option, spec, error) from error


def _import_file(option: str, spec: str, path: Path) -> ModuleType:
    """Import a file under its own name, with its folder on the path as for a script."""
    if not path.is_file():
        raise UsageProblem(f"{option} {spec!r}: there is no file {str(path)!r} in {str(Path.cwd())!r}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module_spec = importlib.util.spec_from_file_location(path.stem, path)
    if module_spec is None or module_spec.loader is None:
        raise UsageProblem(f"{option} {spec!r}: {str(path)!r} is no Python file")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[path.stem] = module
    try:
        module_spec.loader.exec_module(module)
    except Exception as error:
        raise _import_problem(option, spec, error) from error
    return module


def _import_problem(option: str, spec: str, error: Exception) -> UsageProblem:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if len(frames) > 1 else ""
    return UsageProblem(f"{option} {spec!r}: importing it fails: {type(error).__name__}: {error}{place}")
