"""The ids of a run's trace: derived from recorded data, so that every exporter gives a span the
same ids.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")


@dataclass(frozen=True)
class TraceIds:
    """The ids of the spans of one run: the same for all its links, and in every process."""

    workflow_id: str
    first_run_id: str
    """The run id of the first link, which distinguishes the run from a later one of the same
    workflow id."""
    trace_id: int
    """The trace of the run at the root of the tree of calls."""
    parent_id: int | None = None
    """The span of the tool call that started the run; None for a run that was not called by
    another."""

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, namespace: str, workflow_id: str, first_run_id: str, caller: str = "") -> TraceIds:
        """Return the ids of a run; `caller` is the calling run's `called` value, "" if there is
        none.
        """
        if above := read_traceparent(caller):
            return cls(workflow_id, first_run_id, *above)
        return cls(
            workflow_id, first_run_id, _hash(16, "trace", namespace, workflow_id, first_run_id)
        )

    @property
    def agent(self) -> int:
        """The span of the whole run."""
        return self._span("invoke_agent")

    def chat(self, iteration: int, earlier: int = 0) -> int:
        """Return the span of a try of an iteration's model call, after `earlier` ones."""
        return self._span("chat", iteration, earlier)

    def tool(self, iteration: int, index: int, earlier: int = 0) -> int:
        """Return the span of an execution of the call at that index of the reply, after `earlier`
        failed ones.
        """
        return self._span("execute_tool", iteration, index, earlier)

    def wait(self, kind: str, iteration: int, number: int) -> int:
        """Return the span of an iteration's wait of that kind; `number` counts from 0."""
        return self._span("wait", kind, iteration, number)

    def activity(self, link: str, activity_id: str) -> int:
        """Return the span of any other activity, by the run id of its link and Temporal's id in
        it.
        """
        return self._span("activity", link, activity_id)

    def child_traceparent(self, iteration: int, index: int) -> str:
        """Return the W3C `traceparent` for the run that this call starts: the trace, and the span
        above it.
        """
        return traceparent(self.trace_id, self.tool(iteration, index))

    def _span(self, *what: str | int) -> int:
        return _hash(8, "span", self.workflow_id, self.first_run_id, *what)


def traceparent(trace_id: int, span_id: int) -> str:
    """Return the two ids in the form of the W3C Trace Context."""
    return f"00-{trace_id:032x}-{span_id:016x}-01"


def read_traceparent(text: str) -> tuple[int, int] | None:
    """Trace id and span id of a W3C `traceparent`; None where it has none."""
    found = _TRACEPARENT.fullmatch(text)
    ids = (int(found[1], 16), int(found[2], 16)) if found else (0, 0)
    return ids if all(ids) else None


def _hash(size: int, *parts: str | int) -> int:
    """Return a hash that is never 0, which OpenTelemetry treats as a missing id."""
    digest = blake2b(json.dumps(parts).encode(), digest_size=size).digest()
    return int.from_bytes(digest, "big") or 1


def idempotency_key(run_id: str, iteration: int, index: int) -> str:
    """Return the key of one call of a run's link, the same for each of its attempts."""
    return f"{run_id}/{iteration}/{index}"
