"""The file that a `${file:path}` names: where it may lie, and what it holds (§2.10)."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import LoadError, ReferencedFileNotFoundError
from ..json_values import json_value
from .asset_file import read_text
from .yaml_text import read_yaml

_YAML = frozenset({".yaml", ".yml"})


def contained_path(written: str, base_dir: Path | None, roots: Sequence[Path]) -> Path:
    """The file's real path, symlinks followed. Raises LoadError when it lies in none of the real folders `roots`."""
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
    """Whether the file holds values, and references within them count; any other file is one text."""
    return path.suffix.lower() in {".json", *_YAML}


def read_referenced(path: Path) -> Any:
    """The parsed JSON or YAML of the file, or its text, by its suffix.

    Raises ReferencedFileNotFoundError, or LoadError when it can't be read or parsed.
    """
    if not os.path.exists(path):
        raise ReferencedFileNotFoundError(f"Referenced file not found: {path}")
    text = read_text(path)
    if path.suffix.lower() == ".json":
        return _parse_json(text, path)
    return _parse_yaml(text, path) if path.suffix.lower() in _YAML else text


def _parse_json(text: str, path: Path) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise LoadError(f"{path} holds no valid JSON: {error}") from None
    try:
        return json_value(value)
    except LoadError as error:
        raise LoadError(f"{path}: {error}") from None


def _parse_yaml(text: str, path: Path) -> Any:
    try:
        return read_yaml(text)[0]
    except LoadError as error:
        raise LoadError(f"{path}:{error.line}: {error.message}") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")
