"""When a history that Temporal suggests to leave is left: pure arithmetic, here at its edges."""

from __future__ import annotations

import pytest

from perdure.workflows.history_size import MAX_EVENTS, MAX_HISTORY_BYTES, Extent, has_grown_enough

KIB, MIB = 1024, 1024 * 1024
START = Extent(events=5, bytes=4 * KIB)


@pytest.mark.parametrize(
    ("carried", "leaves"), [(100 * KIB, True), (399 * KIB, True), (400 * KIB, False)]
)
def test_a_history_of_small_events_is_left_when_it_is_four_times_what_is_carried_over(
    carried: int, leaves: bool
) -> None:
    now = Extent(events=4096, bytes=START.bytes + 4 * 399 * KIB)
    assert has_grown_enough(START, now, carried) is leaves


def test_a_trimmed_conversation_is_carried_over_at_the_first_suggestion() -> None:
    assert has_grown_enough(START, Extent(events=4096, bytes=1600 * KIB), carried_bytes=8 * KIB)


def test_small_events_are_not_too_many_to_replay_in_a_workflow_task() -> None:
    begun = START.events + MAX_EVENTS
    assert not has_grown_enough(START, Extent(begun - 1, 6 * MIB), carried_bytes=5 * MIB)
    assert has_grown_enough(START, Extent(begun, 6 * MIB), carried_bytes=5 * MIB)


@pytest.mark.parametrize(("started_with", "leaves"), [(3 * MIB, True), (4 * MIB - 1, False)])
def test_a_history_of_large_events_is_left_when_it_has_doubled(
    started_with: int, leaves: bool
) -> None:
    start, now = Extent(3, started_with), Extent(40, 3 * MIB + 4 * MIB - 2)
    assert has_grown_enough(start, now, carried_bytes=5 * MIB) is leaves


def test_a_server_that_suggests_it_early_is_followed_once_the_history_has_doubled() -> None:
    assert has_grown_enough(
        START, Extent(events=60, bytes=2 * START.bytes), carried_bytes=100 * KIB
    )
    assert not has_grown_enough(
        START, Extent(events=60, bytes=2 * START.bytes - 1), carried_bytes=100 * KIB
    )


def test_no_history_comes_near_the_size_at_which_temporal_ends_the_run() -> None:
    start = Extent(3, 30 * MIB)
    assert not has_grown_enough(start, Extent(40, MAX_HISTORY_BYTES - 1), carried_bytes=30 * MIB)
    assert has_grown_enough(start, Extent(40, MAX_HISTORY_BYTES), carried_bytes=30 * MIB)
