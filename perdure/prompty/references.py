"""Resolves `${env:NAME}` and `${file:path}` in an asset's strings, during loading (§2.10)."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..arguments import DECODER, MAX_DEPTH, MAX_VALUES, Place, json_value, why_no_json
from ..errors import LoadError, ReferencedFileNotFoundError
from .portable import env_name, env_value, is_env_reference
from .shorthands import Fail, map_strings

_FILE_REFERENCE = re.compile(r"\$\{file:(.*)\}", re.DOTALL)
_YAML = frozenset({".yaml", ".yml"})


class FromEnvironment(str):
    """The value of an environment reference; otherwise a plain string."""

    reference: str
    """The reference as written in the file."""

    def __new__(cls, value: str, reference: str) -> FromEnvironment:
        text = super().__new__(cls, value)
        text.reference = reference
        return text


def is_unset(value: object) -> bool:
    """Return whether an asset's value is a reference to a variable that is not set here."""
    return isinstance(value, FromEnvironment) and value == value.reference


def not_set(reference: str) -> str:
    """Return the message about a reference to an unset variable."""
    return f"Environment variable '{env_name(reference)}' not set"


class References:
    """Resolves the references of one asset. Only a whole string is a reference; unknown protocols
    stay unchanged.
    """

    def __init__(
        self,
        base_dir: Path | None,
        allowed_file_roots: Sequence[Path],
        *,
        fail: Fail,
    ) -> None:
        """Files may be read in `base_dir`, where relative paths start, and in
        `allowed_file_roots`.
        """
        self._base_dir = base_dir
        self._roots = [
            root.resolve() for root in (base_dir, *allowed_file_roots) if root is not None
        ]
        self.fail = fail
        """Handles each error of the asset."""
        self._open_files: list[Path] = []
        self._seen = 0

    def resolve(self, value: Any, place: Place = ()) -> Any:
        """Copy of nested maps and lists with all references resolved, environment values as
        `FromEnvironment`.

        A reference to an unset variable stays as written: see `is_unset`. Does not raise: errors go
        to `fail`.
        """
        return map_strings(value, self._string, place)

    def _string(self, place: Place, text: str) -> Any:
        self._seen += 1
        if is_env_reference(text):
            return self._environment(place, text)
        match = _FILE_REFERENCE.fullmatch(text)
        return self._file(place, match[1]) if match else text

    def _environment(self, place: Place, reference: str) -> str:
        value = env_value(reference)
        if value is None:
            return FromEnvironment(reference, reference)
        if reason := why_no_json(value):
            self.fail(LoadError(reason), place)
        return FromEnvironment(value, reference)

    def _file(self, place: Place, written: str) -> Any:
        try:
            path = contained_path(written, self._base_dir, self._roots)
            self._check_bounds(path, place)
            value = read_referenced(path)
        except LoadError as error:
            self.fail(error, place)
            return None
        if not is_structured(path):
            return value
        self._open_files.append(path)
        resolved = self.resolve(value, place)
        self._open_files.pop()
        return resolved

    def _check_bounds(self, path: Path, place: Place) -> None:
        if path in self._open_files:
            raise LoadError(f"{path} refers to itself")
        if len(place) + len(self._open_files) > MAX_DEPTH or self._seen > MAX_VALUES:
            raise LoadError(
                f"the referenced files nest deeper than {MAX_DEPTH} levels or hold too many values"
            )


def contained_path(written: str, base_dir: Path | None, roots: Sequence[Path]) -> Path:
    """Real path of a file, symlinks followed. Raises LoadError if it is in none of the real folders
    `roots`.
    """
    if base_dir is None and not os.path.isabs(written):
        raise LoadError(f"{written} is relative, and no base_dir was given")
    try:
        path = ((base_dir or Path()) / written).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise LoadError(f"can't follow {written!r}: {error}") from None
    if not any(path.is_relative_to(root) for root in roots):
        raise LoadError(f"{written} resolves outside allowed roots")
    return path


def is_structured(path: Path) -> bool:
    """Return whether the file is parsed as JSON or YAML, and its references resolved; any other
    file is one string.
    """
    return path.suffix.lower() in {".json", *_YAML}


def read_referenced(path: Path) -> Any:
    """Return the file's content: parsed if its suffix is that of JSON or YAML, else as one string.

    Raises ReferencedFileNotFoundError, or LoadError for a file that can't be read or parsed.
    """
    from .asset_file import read_text, read_yaml  # imports yaml, which parsing alone does not need

    if not os.path.exists(path):
        raise ReferencedFileNotFoundError(f"Referenced file not found: {path}")
    try:
        text = read_text(path)
    except LoadError as error:
        raise LoadError(f"{path}: {error.message}") from None
    if path.suffix.lower() == ".json":
        return _parse_json(text, path)
    if path.suffix.lower() not in _YAML:
        return text
    try:
        return read_yaml(text)[0]
    except LoadError as error:
        raise LoadError(f"{path}:{error.line}: {error.message}") from None


def _parse_json(text: str, path: Path) -> Any:
    try:
        value = DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise LoadError(f"{path} is not valid JSON: {error}") from None
    try:
        return json_value(value)
    except LoadError as error:
        raise LoadError(f"{path}: {error}") from None
