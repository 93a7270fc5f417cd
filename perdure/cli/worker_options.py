"""The options of `perdure worker` that are about Temporal: the version of a deployment, slots,
caches and pollers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from .problems import UsageProblem

Deployment = Annotated[
    str | None,
    typer.Option(
        "--deployment",
        metavar="NAME",
        envvar="TEMPORAL_DEPLOYMENT_NAME",
        help="The deployment of this worker; its runs stay in their version: perdure docs deploys.",
    ),
]
BuildId = Annotated[
    str | None,
    typer.Option(
        "--build-id",
        metavar="ID",
        envvar="TEMPORAL_WORKER_BUILD_ID",
        help="The version of the deployment that this worker is of.",
    ),
]


def _size(name: str, help: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        f"--{name}", metavar="N", min=1, help=help, show_default=False
    )
    return option


WorkflowTasks = Annotated[
    int | None,
    _size(
        "max-concurrent-workflow-tasks",
        "Decisions of runs that are made at a time; 100 without it.",
    ),
]
Activities = Annotated[
    int | None,
    _size(
        "max-concurrent-activities",
        "Model calls and tools that are executed at a time; 100 without it.",
    ),
]
LocalActivities = Annotated[
    int | None,
    _size(
        "max-concurrent-local-activities",
        "Tools declared local, and guardrails, at a time; 100 without it.",
    ),
]
CachedWorkflows = Annotated[
    int | None,
    _size("max-cached-workflows", "Runs that are kept in memory while they wait; 500 without it."),
]
WorkflowPolls = Annotated[
    int | None,
    _size(
        "max-concurrent-workflow-task-polls",
        "Requests for decisions that are open at a time; 5 without it.",
    ),
]
ActivityPolls = Annotated[
    int | None,
    _size(
        "max-concurrent-activity-task-polls",
        "Requests for calls and tools that are open at a time; 5 without it.",
    ),
]


def given_sizes(**sizes: int | None) -> dict[str, int]:
    """Return the sizes that were given, by their names in `temporalio.worker.Worker`."""
    return {name: size for name, size in sizes.items() if size is not None}


def as_words(values: Mapping[str, object]) -> list[str]:
    """Return the values as options of a command, by the names of their parameters."""
    return [
        word
        for name, value in values.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]


def require_version(deployment: str | None, build_id: str | None, *, reload: bool) -> None:
    """Raises `UsageProblem` for a deployment without a build, the reverse, and for one that
    reloads.
    """
    if bool(deployment) != bool(build_id):
        raise UsageProblem(
            f"--deployment {deployment!r} and --build-id {build_id!r} (or TEMPORAL_DEPLOYMENT_NAME "
            "and "
            "TEMPORAL_WORKER_BUILD_ID) go together: give both, or neither"
        )
    if deployment and reload:
        raise UsageProblem(
            "--reload and --deployment exclude each other: a version does not change with its files"
        )
