"""A reader that the server has refused for a quota goes on when the quota allows it."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType, ResourceExhaustedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.service import RPCError, RPCStatusCode

from perdure.client.reading.watch import ask_again, is_away
from tests.activities.test_pollers import refused


class RefusedOnce:
    """A run's history whose first page is refused."""

    def __init__(self) -> None:
        cause = ResourceExhaustedCause.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT
        completed = HistoryEvent(
            event_id=1, event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED
        )
        self._pages: list[Exception | HistoryEvent] = [
            refused(cause, RPCStatusCode.RESOURCE_EXHAUSTED),
            completed,
        ]

    def handle(self, run_id: str) -> RefusedOnce:
        return self

    def fetch_history_events(self, **how: Any) -> RefusedOnce:
        return self

    def __aiter__(self) -> RefusedOnce:
        return self

    async def __anext__(self) -> HistoryEvent:
        if not self._pages:
            raise StopAsyncIteration
        if isinstance(page := self._pages.pop(0), Exception):
            raise page
        return page


SAID_IN_PASSING = (
    "Current and request branch tokens, or current and request VersionHistories, don't match."
)


@pytest.mark.parametrize(
    ("text", "status", "asked"),
    [
        (SAID_IN_PASSING, RPCStatusCode.INVALID_ARGUMENT, 2),
        ("no such thing", RPCStatusCode.INVALID_ARGUMENT, 1),
        ("nobody there", RPCStatusCode.UNAVAILABLE, 1),
    ],
)
async def test_what_the_server_says_in_passing_is_asked_again(
    text: str, status: RPCStatusCode, asked: int
) -> None:
    told = [RPCError(text, status, b"")]
    count = 0

    async def ask() -> str:
        nonlocal count
        count += 1
        if told:
            raise told.pop()
        return "done"

    if asked == 1:
        with pytest.raises(RPCError, match=text):
            await ask_again(ask)
    else:
        assert await ask_again(ask) == "done"
    assert count == asked
    assert is_away(RPCError(text, status, b"")) == (text != "no such thing")
