"""Calls that were lost with several workers: one at a time in each worker, and waiting does not count."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from perdure.activities.failures import FREE_STARTS, Suspects, last_heartbeat, starts_before
from perdure.protocol.activities import SUSPECT_WAITS, Offer


def environment(attempt: int = 3, *details: Any) -> ActivityEnvironment:
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, attempt=attempt, heartbeat_details=list(details))
    return environment


def test_only_one_suspect_is_executed_and_others_beside_it() -> None:
    def work() -> None:
        suspects = Suspects()
        with suspects.alone(0), suspects.alone(FREE_STARTS - 1), suspects.alone(FREE_STARTS):
            with suspects.alone(1):
                pass
            with pytest.raises(ApplicationError) as waits, suspects.alone(4):
                raise AssertionError("two at once")
            assert (waits.value.type, waits.value.non_retryable) == (SUSPECT_WAITS, False)
            assert waits.value.next_retry_delay is not None
        with suppress(KeyError), suspects.alone(FREE_STARTS):
            raise KeyError
        with suspects.alone(FREE_STARTS):
            pass

    environment().run(work)


@pytest.mark.parametrize(
    ("details", "offer", "starts", "told"),
    [
        # Of nine attempts, two have started it: the others have waited.
        ((), None, 2, ()),
        (({"row": 7},), None, 2, ({"row": 7},)),
        (({"event": "tool_starts", "starts": 4}, {"row": 7}), None, 4, ({"row": 7},)),
        ((3, {"row": 7}), Offer(seconds=1, starts=5), 3, ({"row": 7},)),
        ((), Offer(seconds=1, starts=5), 0, ()),
    ],
)
def test_starts_are_counted_apart_from_attempts(
    details: tuple[Any, ...], offer: Offer | None, starts: int, told: tuple[Any, ...]
) -> None:
    def work() -> None:
        assert starts_before(offer) == starts
        assert last_heartbeat(is_counted=offer is not None) == told

    environment(9, *details).run(work)
