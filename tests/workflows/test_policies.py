"""How the failure of an activity is read."""

from __future__ import annotations

from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as TemporalTimeoutError

from perdure.protocol.activities import WORKER_SHUTDOWN
from perdure.workflows.policies import describe_failure, timed_out, worker_was_lost


def test_an_error_without_a_text_has_its_type() -> None:
    """The SDK writes "Application error" where an exception has no text."""
    silent = ApplicationError("Application error", type="TimeoutError")
    assert describe_failure(silent) == ("TimeoutError", "TimeoutError")
    assert describe_failure(ApplicationError("no disk", type="OSError")) == ("OSError", "no disk")


def failed(cause: Exception) -> ActivityError:
    error = ActivityError(
        "failed",
        scheduled_event_id=1,
        started_event_id=2,
        identity="worker",
        activity_type="perdure.call_model",
        activity_id="1",
        retry_state=None,
    )
    error.__cause__ = cause
    return error


def test_a_worker_is_lost_by_its_heartbeat_or_its_shutdown() -> None:
    silent, slow = (
        failed(TemporalTimeoutError("", type=type, last_heartbeat_details=[]))
        for type in (TimeoutType.HEARTBEAT, TimeoutType.START_TO_CLOSE)
    )
    stopped = failed(ApplicationError("stopped", type=WORKER_SHUTDOWN))
    assert [worker_was_lost(each) for each in (silent, stopped, slow)] == [True, True, False]
    assert [timed_out(each) for each in (silent, stopped, slow)] == [False, False, True]
