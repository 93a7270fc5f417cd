"""Finds the errors and likely mistakes in a `.prompty` file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...agents import Agent
from ...arguments import Place, dotted_path
from ...errors import LoadError
from ...json_types import JsonView
from ...model_choice import AS_WRITTEN, ModelChoice
from ..asset_file import WrittenAsset, read_asset
from ..load import canonical, root_paths
from ..references import References
from ..shorthands import nearest
from ..validation import InvalidAssetError, to_agent
from .findings import Finding, field_findings, warning
from .template import template_findings

FurtherCheck = Callable[[JsonView, Path], Iterable[Finding]]
"""Returns further findings about an asset in canonical form, given the folder of its file."""


@dataclass(frozen=True)
class Problem:
    """One problem. An error keeps the agent from running; a warning may be the author's
    intention.
    """

    line: int | None
    """Counted from 1; None for a problem of the whole file."""
    field: str
    """The place in the frontmatter, such as `model.options.topP`; "" for the body and for the whole
    file."""
    message: str
    severity: Literal["error", "warning"]
    is_last: bool = False
    """Whether it comes after all others, because it sums them up."""


def check(
    path: str | os.PathLike[str],
    *,
    also: Iterable[FurtherCheck] = (),
    choice: ModelChoice = AS_WRITTEN,
) -> list[Problem]:
    """Return the problems of the file in the order of its lines, then totals; [] if there are none.

    `choice` is as for `load`. `also` are checks that need this process or its folder, not the file
    alone. Raises FileNotFoundError if there is no such file.
    """
    file = Path(path).absolute()
    if not os.path.exists(file):
        raise FileNotFoundError(f"Prompty file not found: {file}")
    try:
        written = read_asset(file)
    except LoadError as error:
        return [Problem(error.line, error.field or "", error.message, "error")]
    problems = list(_problems(written, file.parent, also, choice))
    return sorted(dict.fromkeys(problems), key=lambda problem: (problem.is_last, problem.line or 0))


def _problems(
    written: WrittenAsset,
    folder: Path,
    also: Iterable[FurtherCheck],
    choice: ModelChoice,
) -> Iterator[Problem]:
    unresolved: list[Finding] = []

    def fail(error: LoadError, place: Place) -> None:
        unresolved.append(Finding(place, error.message))

    found = canonical(written, References(folder, root_paths(()), fail=fail), choice)
    asset = found.asset
    if not written.has_frontmatter:
        text = (
            "no properties: expected `---`, properties as YAML, `---`, and then the text. All of "
            "it is taken as text"
        )
        yield Problem(1, "", text, "warning")
    if written.data.get("model") is None and not any(choice):
        yield _problem(written, (), warning((), "no `model` is named"))
    for note in found.notes:
        yield _problem(written, note.place, warning(note.place, note.text))
    for finding in unresolved:
        yield _problem(written, finding.place, finding)
    further = (finding for find in also for finding in find(asset, folder))
    agent, faults = _validated(asset)
    for finding in (*faults, *field_findings(asset, found.data, agent), *further):
        yield _problem(written, found.written(finding.place), finding)
    for finding in template_findings(asset, written.body_line):
        yield _problem(written, found.written(finding.place), finding)


def _problem(written: WrittenAsset, place: Place, finding: Finding) -> Problem:
    line = finding.line or nearest(place, written.lines)
    return Problem(
        line, dotted_path(place), finding.message, finding.severity, is_last=finding.is_last
    )


def _validated(asset: JsonView) -> tuple[Agent | None, list[Finding]]:
    """Return the agent, or the errors of validation, except those about values that depend on an
    environment variable.
    """
    try:
        return to_agent(asset), []
    except InvalidAssetError as error:
        return None, [
            Finding(place, reason) for place, reason in error.problems if "'${env:" not in reason
        ]
