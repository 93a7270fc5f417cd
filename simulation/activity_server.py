"""The server's side of activities: attempts, time-outs, retries, heartbeats, cancellations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import RetryState
from temporalio.api.failure.v1 import Failure

from . import failures
from .history import Activity, Execution

if TYPE_CHECKING:
    from .world import World


class ActivityServer(ABC):
    """Gives activities to workers until they end."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._idle: list[tuple[Execution, Activity]] = []
        """Activities that found no worker."""

    @abstractmethod
    def add(self, execution: Execution, kind: str, ref: int = 0, body: Any = None) -> None: ...

    def schedule_attempt(self, execution: Execution, activity: Activity, seconds: float) -> None:
        """Offer the next attempt to workers, after that time."""
        activity.state = "waiting"
        activity.attempt += 1
        activity.attempt_scheduled_at = self.world.now() + seconds
        token = activity.token
        self.world.later(
            seconds + self.world.chance.delay("activity"),
            lambda: self._offer_attempt(execution, activity, token),
        )
        wait = activity.scheduled.body.schedule_activity.schedule_to_start_timeout
        if limit := wait.ToNanoseconds() / 1e9:
            self.world.later(seconds + limit, lambda: self._end_wait(execution, activity, token))

    def _offer_attempt(
        self, execution: Execution, activity: Activity, token: tuple[int, int]
    ) -> None:
        if activity.token != token or activity.state != "waiting":
            return
        workers = [each for each in self.world.workers if each.polls]
        if not workers:
            self._idle.append((execution, activity))
            return
        worker = self.world.chance.choice(workers)
        activity.state, activity.worker = "started", worker.name
        activity.started_at = activity.beaten_at = self.world.now()
        command = activity.scheduled.body.schedule_activity
        if limit := command.start_to_close_timeout.ToNanoseconds() / 1e9:
            self.world.later(
                limit, lambda: self._time_out(execution, activity, token, "StartToClose")
            )
        if beat := command.heartbeat_timeout.ToNanoseconds() / 1e9:
            self._watch(execution, activity, token, beat)
        worker.take_activity(execution, activity)

    def offer_activities(self) -> None:
        """Offer the activities that found no worker."""
        idle, self._idle = self._idle, []
        for execution, activity in idle:
            self.world.later(
                0.001, partial(self._offer_attempt, execution, activity, activity.token)
            )

    def _end_wait(self, execution: Execution, activity: Activity, token: tuple[int, int]) -> None:
        if activity.token == token and activity.state == "waiting":
            self._end(
                execution, activity, "activity_timed_out", failures.timed_out("ScheduleToStart")
            )

    def _watch(
        self, execution: Execution, activity: Activity, token: tuple[int, int], beat: float
    ) -> None:
        def look() -> None:
            if activity.token != token or activity.state != "started":
                return
            if self.world.now() - activity.beaten_at >= beat - 1e-6:
                self._time_out(execution, activity, token, "Heartbeat")
            else:
                self._watch(execution, activity, token, beat)

        self.world.later(activity.beaten_at + beat - self.world.now(), look)

    def _time_out(
        self, execution: Execution, activity: Activity, token: tuple[int, int], kind: str
    ) -> None:
        if activity.token != token or activity.state != "started":
            return
        self.world.trace(
            f"server: {self._name(execution, activity)} attempt {activity.attempt}: {kind} time-out"
        )
        failure = failures.timed_out(kind, activity.details)
        self._retry(execution, activity, failure, f"TemporalTimeout:{kind}", None)

    def beat(
        self, execution: Execution, token: tuple[int, int], details: list[Payload]
    ) -> bool | None:
        """Take a heartbeat; return whether the activity is cancelled, None if it is unknown."""
        activity = self._started(execution, token)
        if activity is None:
            return None
        activity.beaten_at, activity.details = self.world.now(), details
        return activity.is_cancelled

    def _started(self, execution: Execution, token: tuple[int, int]) -> Activity | None:
        activity = execution.activities.get(token[0])
        if activity is None or activity.token != token or activity.state != "started":
            return None
        return None if execution.is_closed else activity

    def end_attempt(
        self, execution: Execution, token: tuple[int, int], kind: str, body: Any
    ) -> bool:
        """Take a worker's answer: completed, failed or canceled; False if it is not awaited."""
        activity = self._started(execution, token)
        if activity is None:
            return False
        if kind == "failed":
            info = body.application_failure_info
            delay = (
                info.next_retry_delay.ToNanoseconds() / 1e9
                if body.HasField("application_failure_info") and info.HasField("next_retry_delay")
                else None
            )
            self._retry(execution, activity, body, None if info.non_retryable else info.type, delay)
        else:
            self._end(execution, activity, f"activity_{kind}", body)
        return True

    def _retry(
        self,
        execution: Execution,
        activity: Activity,
        failure: Failure,
        type: str | None,
        delay: float | None,
    ) -> None:
        """Try again, unless the policy forbids it; `type` is None for a final error."""
        policy = activity.scheduled.body.schedule_activity.retry_policy
        is_timeout = failure.HasField("timeout_failure_info")
        state = None
        if type is None or type in policy.non_retryable_error_types:
            state = RetryState.RETRY_STATE_NON_RETRYABLE_FAILURE
        elif 0 < policy.maximum_attempts <= activity.attempt:
            state = RetryState.RETRY_STATE_MAXIMUM_ATTEMPTS_REACHED
        elif activity.is_cancelled:
            state = RetryState.RETRY_STATE_CANCEL_REQUESTED
        if state is None:
            activity.last_failure = failure
            backoff = policy.initial_interval.ToNanoseconds() / 1e9 or 1.0
            backoff *= (policy.backoff_coefficient or 2.0) ** (activity.attempt - 1)
            longest = policy.maximum_interval.ToNanoseconds() / 1e9 or 100.0
            self.schedule_attempt(
                execution, activity, min(backoff, longest) if delay is None else delay
            )
            return
        kind = "activity_timed_out" if is_timeout else "activity_failed"
        self._end(execution, activity, kind, failure, state)

    def _end(
        self,
        execution: Execution,
        activity: Activity,
        kind: str,
        body: Any,
        state: RetryState.ValueType = RetryState.RETRY_STATE_UNSPECIFIED,
    ) -> None:
        activity.state = "over"
        if kind in ("activity_failed", "activity_timed_out"):
            command = activity.scheduled.body.schedule_activity
            body = failures.of_activity(
                command.activity_id,
                command.activity_type,
                activity.scheduled.id,
                0,
                body,
                state,
            )
        self.world.trace(f"server: {self._name(execution, activity)}: {kind}")
        self.add(execution, kind, activity.scheduled.id, (activity.attempt, body))

    def _name(self, execution: Execution, activity: Activity) -> str:
        command = activity.scheduled.body.schedule_activity
        return f"{execution.run_id}/{command.activity_id} {command.activity_type}"
