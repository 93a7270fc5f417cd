"""What one link of a run did that no activity of perdure's worker has executed, for the run's trace."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from temporalio import workflow

from ..events import EventLog, RunEvent
from ..loop.allowance import ChildEnd
from ..loop.state import LoopState
from ..messages import ToolResult
from ..protocol.run import RunInput
from ..tool_calls import ToolRequest

End = TypeVar("End", ToolResult, ChildEnd)


@dataclass
class DelegatedCall:
    """A tool call that others execute: a run of another agent, a child workflow, somebody else's activity."""

    request: ToolRequest
    since: float
    """Seconds since the epoch, by the workflow's clock."""
    workflow_id: str = ""
    """Of the run of another agent; "" for what is no run."""
    run_id: str = ""
    """Of that run's first link."""
    until: float | None = None
    """None while it is awaited."""
    error_kind: str | None = None

    async def ended(self, execution: Awaitable[End]) -> End:
        """The end of the execution, noted. Raises what it raises."""
        end = await execution
        result = end.result if isinstance(end, ChildEnd) else end
        self.until = workflow.time()
        if result.status != "success":
            self.error_kind = result.error_kind or result.status
        return end


@dataclass(frozen=True)
class RunRecord:
    """One link as it stands: the same in the worker that executes it and in whoever replays its history."""

    input: RunInput
    state: LoopState
    log: EventLog
    delegated: Sequence[DelegatedCall]

    @property
    def events(self) -> list[RunEvent]:
        """Those of this link, in order, without the conversation."""
        events: list[RunEvent] = []
        more = True
        while more:
            page = self.log.page(events[-1].seq if events else 0)
            events += page.events
            more = page.more
        return events
