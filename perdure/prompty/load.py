"""Loads an agent from a `.prompty` file, or from the same as a map (§2, §4)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..agent import Agent
from ..errors import LoadError
from ..json_values import json_value
from .asset_file import WrittenAsset, read_asset
from .places import Place
from .references import References
from .secrets import is_resolved_late
from .shorthands import Shorthands
from .validation import InvalidAssetError, to_agent

Roots = Sequence[str | os.PathLike[str]]


def load(path: str | os.PathLike[str], *, allowed_file_roots: Roots = (), defer_environment: bool = False) -> Agent:
    """The agent of a `.prompty` file.

    `${file:…}` may read files in the file's own folder and in `allowed_file_roots`. With `defer_environment`,
    references to unset variables in connections stay as they are written, for `resolve_environment`.
    Raises FileNotFoundError for a missing file, and LoadError for anything that is wrong with its content.
    """
    file = Path(path).absolute()
    if not os.path.exists(file):
        raise FileNotFoundError(f"Prompty file not found: {file}")
    return _agent(read_asset(file), file.parent, allowed_file_roots, defer_environment)


def load_dict(
    data: Mapping[str, Any],
    *,
    base_dir: str | os.PathLike[str] | None = None,
    allowed_file_roots: Roots = (),
    defer_environment: bool = False,
) -> Agent:
    """The agent of a map: a frontmatter's keys, and the body as `instructions`, in which no reference is resolved.

    Relative paths start at `base_dir`; the other arguments are those of `load`. Raises LoadError for anything that is
    wrong with the data.
    """
    if not isinstance(data, Mapping):
        raise LoadError(f"Invalid frontmatter: expected a map of properties, got {data!r:.60}")
    frontmatter = json_value(data)
    written = WrittenAsset(data=frontmatter, body=frontmatter.pop("instructions", ""))
    folder = None if base_dir is None else Path(base_dir).absolute()
    return _agent(written, folder, allowed_file_roots, defer_environment)


def canonical(written: WrittenAsset, references: References) -> tuple[dict[str, Any], Shorthands]:
    """The asset in canonical form, and the shorthands that were expanded, which lead back to what was written."""
    shorthands = Shorthands()
    asset = shorthands.expand(references.resolve(written.data))
    if written.body:
        asset["instructions"] = written.body
    return asset, shorthands


def _agent(written: WrittenAsset, folder: Path | None, roots: Roots, defer_environment: bool) -> Agent:
    def fail(error: LoadError, place: Place) -> None:
        raise written.located(error, place) from None

    keep_unset = is_resolved_late if defer_environment else _never
    references = References(folder, root_paths(roots), fail=fail, keep_unset=keep_unset)
    asset, shorthands = canonical(written, references)
    try:
        agent = to_agent(asset)
    except InvalidAssetError as error:
        place, reason = error.problems[0]
        raise written.located(LoadError(reason), shorthands.written(place)) from None
    agent._base_dir = None if folder is None else str(folder)
    return agent


def root_paths(roots: Roots) -> list[Path]:
    """The folders as paths; a single string is one folder, not a sequence of characters."""
    if isinstance(roots, str | os.PathLike):
        return [Path(roots)]
    return [Path(root) for root in roots]


def _never(place: Place) -> bool:
    return False
