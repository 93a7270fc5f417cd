"""`${env:NAME}` and `${file:path}` in an asset's strings, resolved while it is loaded (§2.10)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import LoadError
from ..json_values import MAX_DEPTH, MAX_VALUES, why_no_json
from .environment import env_name, env_value, is_env_reference
from .places import Place, map_strings
from .referenced_file import contained_path, is_structured, read_referenced

_FILE_REFERENCE = re.compile(r"\$\{file:(.*)\}", re.DOTALL)

Fail = Callable[[LoadError, Place], None]
"""What to do about something wrong at a place: raise it, or note it and go on."""


class FromEnvironment(str):
    """A string that stood in the file as an environment reference."""

    reference: str

    def __new__(cls, value: str, reference: str) -> FromEnvironment:
        text = super().__new__(cls, value)
        text.reference = reference
        return text


class References:
    """Resolves the references of one asset; only whole strings are references, unknown protocols are kept."""

    def __init__(
        self,
        base_dir: Path | None,
        allowed_file_roots: Sequence[Path],
        *,
        fail: Fail,
        keep_unset: Callable[[Place], bool],
    ) -> None:
        """`keep_unset` says of which places a reference to an unset variable may stay as it is written."""
        self._base_dir = base_dir
        self._roots = [root.resolve() for root in (base_dir, *allowed_file_roots) if root is not None]
        self._fail = fail
        self._keep_unset = keep_unset
        self._open_files: list[Path] = []
        self._seen = 0

    def resolve(self, value: Any, place: Place = ()) -> Any:
        """A copy of nested maps and lists, all references resolved; FromEnvironment marks what came from there."""
        return map_strings(value, self._string, place)

    def _string(self, place: Place, text: str) -> Any:
        self._seen += 1
        if is_env_reference(text):
            return self._environment(place, text)
        match = _FILE_REFERENCE.fullmatch(text)
        return self._file(place, match[1]) if match else text

    def _environment(self, place: Place, reference: str) -> str:
        value = env_value(reference)
        if value is None and self._keep_unset(place):
            value = reference
        reason = f"Environment variable '{env_name(reference)}' not set" if value is None else why_no_json(value)
        if reason:
            self._fail(LoadError(reason), place)
        return FromEnvironment(value or "", reference)

    def _file(self, place: Place, written: str) -> Any:
        try:
            path = contained_path(written, self._base_dir, self._roots)
            self._check_bounds(path, place)
            value = read_referenced(path)
        except LoadError as error:
            self._fail(error, place)
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
            raise LoadError(f"the referenced files nest deeper than {MAX_DEPTH} levels or hold too many values")
