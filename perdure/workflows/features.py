"""Leaves a run that needs more than this worker has to another worker."""

from __future__ import annotations

from collections.abc import Iterable

from temporalio import workflow

from .._version import __version__


class MissingFeatureError(Exception):
    """This worker lacks a behaviour that the run needs.

    It fails the workflow task, not the run: it is not one of the workflow's `failure_exception_types`. Temporal then
    offers the task again, until a worker takes it that has the behaviour. The SDK logs the text as a warning.
    """


def require_features(needed: Iterable[str], known: frozenset[str]) -> None:
    """Raises `MissingFeatureError`, which names the run and what it needs, when `needed` has a name beyond `known`."""
    missing = sorted(set(needed) - known)
    if missing:
        info = workflow.info()
        raise MissingFeatureError(
            f"the run {info.workflow_id!r} (link {info.run_id}) needs {', '.join(missing)}, which this worker "
            f"(perdure {__version__}) does not have: the run waits for a worker of a newer version"
        )
