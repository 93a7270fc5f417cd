"""What a tool function may know about the execution that it is part of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..kept_results import KeptResults

T = TypeVar("T")


def _no_heartbeat(*details: object) -> None:
    """Outside a worker nobody listens."""


async def _by_nobody() -> bool:
    """Outside a worker there are no other attempts."""
    return False


@dataclass(frozen=True)
class ToolContext:
    """Passed to a tool function that has a parameter annotated with this class. The model never sees that parameter."""

    run_id: str = ""
    iteration: int = 0
    call_id: str = ""
    idempotency_key: str = ""
    """The same for every attempt of one tool call, and for no other call: pass it to services that deduplicate."""
    attempt: int = 1
    """1 for the first execution; more for one that repeats an execution which was lost with its worker."""
    heartbeat: Callable[..., None] = _no_heartbeat
    """Tells Temporal that a long execution is alive, with details or without. May be called from any thread."""
    last_heartbeat: tuple[Any, ...] = ()
    """The details that the attempt before this one has told last, in their JSON form; () when there are none."""
    handed_on: Callable[[], Awaitable[bool]] = _by_nobody
    """Once the execution is cancelled: whether another attempt goes on with the call, since this worker stops or was
    taken for lost. If not, the run was cancelled or the call's time is over: then work begun elsewhere is to be ended.
    """
    kept_results: KeptResults | None = field(default=None, repr=False)
    """For perdure's own tools: the results of the run's calls, whole."""
    resources: Mapping[type, Any] = field(default_factory=dict, repr=False)
    """What `resource` gives, by type; an exception for one that can't be opened."""

    def resource(self, type: type[T]) -> T:
        """What the tools of this worker share, such as a database (`create_worker(resources={…})`).

        Raises KeyError for a type that the worker has no resource of, and ResourceError for one that can't be opened.
        """
        if type not in self.resources:
            known = ", ".join(sorted(each.__name__ for each in self.resources)) or "none"
            raise KeyError(f"no resource of type {type.__name__}: this worker has {known}")
        found = self.resources[type]
        if isinstance(found, Exception):
            raise found
        opened: T = found
        return opened
