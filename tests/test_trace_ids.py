"""The ids of a run's trace."""

from __future__ import annotations

from itertools import chain

from perdure.trace_ids import TraceIds

RUN = TraceIds.of("default", "run", "first")


def test_each_span_of_each_run_has_an_id_of_its_own() -> None:
    runs = [RUN, TraceIds.of("default", "run", "second"), TraceIds.of("default", "ru", "nfirst")]
    spans = list(
        chain.from_iterable(
            (
                run.agent,
                *(run.chat(iteration, earlier) for iteration in range(12) for earlier in range(12)),
                *(run.tool(iteration, index) for iteration in range(12) for index in range(12)),
                run.tool(1, 1, 1),
                run.wait("approval", 1, 0),
                run.wait("question", 1, 0),
                run.activity("first", "1"),
            )
            for run in runs
        )
    )
    assert len(set(spans)) == len(spans)
    assert all(0 < span < 2**64 for span in spans)
    assert len({run.trace_id for run in runs}) == 3


def test_ids_hold_for_ever() -> None:
    assert f"{RUN.trace_id:032x}" == "3a2a2094a9ccff52b6b61f16a08cc5b8"
    assert f"{RUN.agent:016x}" == "9d0fdad80824488f"
    assert TraceIds.of("default", "run", "first") == RUN
    assert TraceIds.of("other", "run", "first").trace_id != RUN.trace_id


def test_a_called_run_is_below_the_call_that_has_started_it() -> None:
    called = TraceIds.of("default", "run/3-1", "its first", RUN.child_traceparent(3, 1))
    assert called.trace_id == RUN.trace_id
    assert called.parent_id == RUN.tool(3, 1)
    assert RUN.parent_id is None
