"""Loads an agent from a `.prompty` file, or from the same as a map (§2, §4)."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..agent import Agent
from ..errors import LoadError, PromptyWarning
from ..json_values import json_value
from .asset_file import WrittenAsset, read_asset
from .known_fields import is_ignored
from .migration import Migration, Note, refuse_promptflow
from .octopus import with_octopus_names
from .places import Place, strings
from .references import References, is_unset, not_set
from .secrets import is_resolved_late
from .shorthands import Shorthands
from .validation import InvalidAssetError, to_agent

Roots = Sequence[str | os.PathLike[str]]


def load(
    path: str | os.PathLike[str],
    *,
    allowed_file_roots: Roots = (),
    defer_environment: bool = False,
    strict: bool = False,
) -> Agent:
    """The agent of a `.prompty` file.

    A file of the first format is brought to the present one, with a DeprecationWarning for each change.
    `${file:…}` may read files in the file's own folder and in `allowed_file_roots`. With `defer_environment`,
    references to unset variables in connections stay as they are written, for `resolve_environment`.
    A property that nothing reads, and a variable that is no declared input, is a `PromptyWarning`; with `strict`, it is
    a LoadError. Raises FileNotFoundError for a missing file, and LoadError for anything that is wrong with its content.
    """
    file = Path(path).absolute()
    if not os.path.exists(file):
        raise FileNotFoundError(f"Prompty file not found: {file}")
    written = read_asset(file)
    agent, found = _agent(written, file.parent, allowed_file_roots, defer_environment)
    for doubt in _doubts(written, found):
        if strict:
            raise doubt
        warnings.warn(str(doubt), PromptyWarning, stacklevel=2)
    return agent


def _doubts(written: WrittenAsset, found: Canonical) -> Iterator[LoadError]:
    from .check.doubts import doubts

    for finding in doubts(found.asset, found.data, written.body_line):
        yield written.located(LoadError(finding.message, line=finding.line), found.written(finding.place))


def load_dict(
    data: Mapping[str, Any],
    *,
    base_dir: str | os.PathLike[str] | None = None,
    allowed_file_roots: Roots = (),
    defer_environment: bool = False,
) -> Agent:
    """The agent of a map: a frontmatter's keys, and the body as `instructions`, in which no reference is resolved.

    Relative paths start at `base_dir`; the other arguments are those of `load`. It gives no warnings.
    Raises LoadError for anything that is wrong with the data.
    """
    if not isinstance(data, Mapping):
        raise LoadError(f"Invalid frontmatter: expected a map of properties, got {data!r:.60}")
    frontmatter = json_value(data)
    written = WrittenAsset(data=frontmatter, body=frontmatter.pop("instructions", ""))
    folder = None if base_dir is None else Path(base_dir).absolute()
    # Without warnings: a workflow of a user's own may call this, and in its sandbox no template can be looked into.
    return _agent(written, folder, allowed_file_roots, defer_environment)[0]


class Canonical(NamedTuple):
    """An asset in canonical form, and the way back to what its author wrote."""

    asset: dict[str, Any]
    data: Mapping[str, Any]
    """What the author wrote, in the present format, references resolved."""
    notes: Sequence[Note]
    """What the author wrote in the first format."""
    written: Callable[[Place], Place]
    """The place that the author knows for a place in `asset`."""


def canonical(written: WrittenAsset, references: References) -> Canonical:
    """The asset in canonical form: references resolved, the first format migrated, shorthands expanded.

    What is wrong with names of Octopus, and what only promptflow understands, goes where the references' faults go.
    """
    refuse_promptflow(written.data, references.fail)
    shorthands, migration = Shorthands(), Migration()
    data = migration.apply(references.resolve(written.data))
    asset = with_octopus_names(shorthands.expand(data), references.fail)
    if written.body:
        asset["instructions"] = written.body
    return Canonical(asset, data, migration.notes, lambda place: migration.written(shorthands.written(place)))


def _agent(
    written: WrittenAsset, folder: Path | None, roots: Roots, defer_environment: bool
) -> tuple[Agent, Canonical]:
    def fail(error: LoadError, place: Place) -> None:
        raise written.located(error, place) from None

    found = canonical(written, References(folder, root_paths(roots), fail=fail))
    for note in found.notes:
        text = written.located(LoadError(note.text), note.place)
        warnings.warn(str(text), DeprecationWarning, stacklevel=3)
    for place, reference in _unset(found, defer_environment):
        fail(LoadError(not_set(reference)), found.written(place))
    try:
        agent = to_agent(found.asset)
    except InvalidAssetError as error:
        place, reason = error.problems[0]
        raise written.located(LoadError(reason), found.written(place)) from None
    agent._base_dir = None if folder is None else str(folder)
    agent._file_roots = tuple(str(root.absolute()) for root in root_paths(roots))
    return agent, found


def _unset(found: Canonical, defer_environment: bool) -> Iterator[tuple[Place, str]]:
    """The references to unset variables, except where they are resolved later, or nothing reads them."""
    for place, text in strings(found.asset):
        if not is_unset(text) or (defer_environment and is_resolved_late(place)):
            continue
        if not is_ignored(found.asset, place, found.data.get("metadata")):
            yield place, text


def root_paths(roots: Roots) -> list[Path]:
    """The folders as paths; a single string is one folder, not a sequence of characters."""
    if isinstance(roots, str | os.PathLike):
        return [Path(roots)]
    return [Path(root) for root in roots]
