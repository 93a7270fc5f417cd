"""What a caller may choose about the start of a run, beside what the run itself is told."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypedDict

from temporalio.common import Priority, TypedSearchAttributes, WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from ..errors import ConfigurationError
from ..protocol.run import CarriedConversation
from ..redaction import Redactor

MAX_TENANT_BYTES = 64
"""Temporal's limit for the key by which it shares workers fairly."""

MIN_WEIGHT, MAX_WEIGHT = 0.001, 1000.0
"""Temporal's limits of a key's weight."""


class StartOptions(TypedDict, total=False):
    """Keyword arguments of `start_run`; None is the same as an absent one."""

    tenant: str | None
    """On whose behalf the run is: workers serve tenants in turn, and the run is found by it."""
    tenant_weight: float | None
    """The tenant's share of the workers, against 1 of every other one; 0.001 to 1000. Only with a `tenant`."""
    priority: int | None
    """1 is served first, 5 last; 3 without one. The run's model and tool calls inherit it."""
    search_attributes: TypedSearchAttributes | None
    """Further ones, which the namespace must know."""
    memo: Mapping[str, Any] | None
    """Values that are shown with the run; perdure's own names in it are `agent` and `perdure`. Without secrets."""
    execution_timeout: timedelta | float | None
    """How long the run may take in all, in seconds; then Temporal ends it. `RunOptions.max_seconds` ends it kindly."""
    id_reuse_policy: WorkflowIDReusePolicy | None
    """Whether an id may be used again after its run has ended; by default it may."""
    id_conflict_policy: WorkflowIDConflictPolicy | None
    """What to do while a run of that id is under way; by default the start fails."""
    beginning: CarriedConversation | None
    """Where the run finds the beginning of its conversation; for forks."""
    origin: str | None
    """What starts the run, if not its caller: the run that it is a fork of, for example. For perdure's own use."""


def start_arguments(options: StartOptions) -> dict[str, Any]:
    """The arguments of `Client.start_workflow`, without memo and search attributes. Raises `ValueError`."""
    timeout = options.get("execution_timeout")
    arguments = {
        "priority": _priority(options.get("priority"), options.get("tenant"), options.get("tenant_weight")),
        "execution_timeout": timedelta(seconds=timeout) if isinstance(timeout, int | float) else timeout,
        "id_reuse_policy": options.get("id_reuse_policy"),
        "id_conflict_policy": options.get("id_conflict_policy"),
    }
    return {name: value for name, value in arguments.items() if value is not None}


def require_no_secret(known: Redactor, options: StartOptions, **names: str) -> None:
    """Raises `ConfigurationError` for a secret in what a run is found by, where a replaced one would never be found."""
    tenant, attributes = options.get("tenant"), options.get("search_attributes") or ()
    given: dict[str, Any] = {**names, "tenant": tenant}
    given |= {f"search_attributes[{pair.key.name!r}]": pair.value for pair in attributes}
    for name, value in given.items():
        if (clean := known.value(value)) is not value:
            raise ConfigurationError(
                f"{name} contains a secret, which every run would record: {clean!r} with its value; "
                "give a name that people may read"
            )


def _priority(priority: int | None, tenant: str | None, weight: float | None) -> Priority | None:
    if priority is not None and priority not in range(1, 6):
        raise ValueError(f"priority={priority!r}: expected a number from 1, served first, to 5, served last")
    if tenant is not None and not 0 < len(tenant.encode()) <= MAX_TENANT_BYTES:
        raise ValueError(f"tenant={tenant!r}: expected a name of 1 to {MAX_TENANT_BYTES} bytes")
    if weight is not None and not (tenant is not None and MIN_WEIGHT <= weight <= MAX_WEIGHT):
        raise ValueError(f"tenant_weight={weight!r}: expected {MIN_WEIGHT:g} to {MAX_WEIGHT:g}, with a tenant")
    if priority is None and tenant is None:
        return None
    return Priority(priority_key=priority, fairness_key=tenant, fairness_weight=weight)
