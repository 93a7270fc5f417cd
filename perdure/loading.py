"""Imports objects by users' references: in a module or a Python file."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from .errors import ConfigurationError
from .json_types import JsonObject

FILE_MODULE = "perdure_tools_"
"""The prefix of the names of modules made from files."""


def load_objects(source: str) -> JsonObject:
    """Name → object, for the names in `module:name1,name2` or `file.py:name`, at least one.

    Raises ConfigurationError, which names the command to type, for a source that can't be imported
    or names nothing, and for a missing name.
    """
    place, names = split_source(source)
    if not names:
        raise ConfigurationError(
            f"{source!r} names only a module, expected a name in it, too: {source}:name"
        )
    module = load_module(place)
    for name in names:
        if not hasattr(module, name):
            own = [
                each
                for each, value in vars(module).items()
                if getattr(value, "__module__", "") == module.__name__
            ]
            raise ConfigurationError(
                f"No {name!r} in {place!r}; defined there: {', '.join(own) or 'nothing'}"
            )
    return {name: getattr(module, name) for name in names}


def names_in(source: str) -> list[str]:
    """Return the names in `module:name1,name2`; [] if the source is a whole module or file."""
    return split_source(source)[1]


def split_source(source: str) -> tuple[str, list[str]]:
    """Return the module or file, and the names after it."""
    place, colon, names = source.rpartition(":")
    if not colon or "/" in names or "\\" in names:  # not names, but perhaps a drive letter
        return source, []
    return place, [name.strip() for name in names.split(",") if name.strip()]


def load_module(place: str) -> ModuleType:
    """Return the module of that name, or of a file. Raises ConfigurationError, which names the
    command to type.
    """
    return _load_file(place) if place.endswith(".py") else _import(place)


def _import(name: str) -> ModuleType:
    with _import_path(Path.cwd()):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name and (name == error.name or name.startswith(f"{error.name}.")):
                hint = "on the Python path; a file is given as path/to/file.py"
                raise ConfigurationError(
                    f"Can't load {name!r}: no module {error.name!r} in {Path.cwd()} or {hint}"
                ) from error
            raise _import_error(name, error) from error
        except Exception as error:
            raise _import_error(name, error) from error


def _load_file(place: str) -> ModuleType:
    path = Path(place).resolve()
    if not path.is_file():
        raise ConfigurationError(f"Can't load {place!r}: there is no file {path}")
    name = f"{FILE_MODULE}{path.stem}_{zlib.crc32(str(path).encode()):08x}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"Can't load {place!r}: {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with _import_path(path.parent):
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise _import_error(place, error) from error
    return module


def _import_error(place: str, error: Exception) -> ConfigurationError:
    return ConfigurationError(f"Can't load {place!r}: importing it failed: {_error_text(error)}")


def _error_text(error: Exception) -> str:
    """Return the error, and its position in the user's code: file, line and the source line."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        text, file, line = f"{type(error).__name__}: {error.msg}", error.filename, error.lineno
        source = (error.text or "").strip()
    else:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        file, line, source = frame.filename, frame.lineno, frame.line or ""
    if not file or not line or not source:
        return text
    return f"{text}\n  {file}:{line}: {source}"


@contextmanager
def _import_path(folder: Path) -> Iterator[None]:
    """Make modules in `folder` importable while the block runs."""
    entry = str(folder)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        if entry in sys.path:
            sys.path.remove(entry)
