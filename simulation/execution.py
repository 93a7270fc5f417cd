"""A worker's process: perdure's activities, executed as the SDK's worker executes them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.bridge.proto.activity_result import ActivityResolution
from temporalio.bridge.proto.workflow_commands import WorkflowCommand
from temporalio.common import MetricMeter, Priority, _CompositeEvent
from temporalio.exceptions import ApplicationError, CancelledError

from . import jobs
from .clock import moment
from .history import Activity, Execution
from .instances import CONVERTER
from .tools import current

if TYPE_CHECKING:
    from .worker import Worker
    from .world import World

_payloads = CONVERTER.payload_converter
_failures = CONVERTER.failure_converter
_shutdown = _CompositeEvent(thread_event=threading.Event(), async_event=None)


class _Attempt:
    """One attempt of an activity in a process."""

    def __init__(self) -> None:
        self.details = activity._ActivityCancellationDetailsHolder()
        self.cancelled = _CompositeEvent(
            thread_event=threading.Event(), async_event=asyncio.Event()
        )
        self.task: asyncio.Task[Any] | None = None
        self.by_request = False

    def cancel(self, *, requested: bool) -> None:
        """Cancel the attempt, as the SDK does after a heartbeat."""
        if self.details.details is not None or self.task is None:
            return
        self.by_request = True
        self.details.details = activity.ActivityCancellationDetails(
            cancel_requested=requested, not_found=not requested
        )
        self.cancelled.set()
        self.task.cancel()


class Process:
    """The process of a worker, from its start to its death."""

    def __init__(self, world: World, worker: Worker) -> None:
        self.world = world
        self.worker = worker
        self.is_dead = False
        self.activities = world.scene.activities(self)
        self.client = world.client_of(self)

    def die(self) -> None:
        """From now on, nothing in this process goes on."""
        self.is_dead = True

    def forget(self) -> None:
        """Drop the cached runs, as a process with too many of them does."""
        self.activities.runs._runs.clear()
        self.activities.runs._conversations.clear()

    async def reach(self, what: str) -> None:
        """Take the time of one way over the network; never return in a dead process."""
        await asyncio.sleep(self.world.chance.delay(what))
        await self.go_on()

    async def go_on(self) -> None:
        """Wait while the process is frozen; never return in a dead one."""
        while self.is_dead or self.worker.is_frozen:
            if self.is_dead:
                await asyncio.get_running_loop().create_future()
            await asyncio.sleep(0.1)

    def execute(self, execution: Execution, task: Activity, token: tuple[int, int]) -> None:
        """Execute an attempt of an activity, and send its end to the server."""
        command = task.scheduled.body.schedule_activity
        timeout = command.heartbeat_timeout.ToTimedelta()
        info = self._info(execution, command, is_local=False)
        info.update(
            attempt=token[1],
            heartbeat_details=[_payloads.from_payload(payload, object) for payload in task.details],
            heartbeat_timeout=timeout or None,
            scheduled_time=moment(task.scheduled.time),
            current_attempt_scheduled_time=moment(task.attempt_scheduled_at),
            started_time=moment(task.started_at),
            task_token=f"{execution.run_id} {token[0]} {token[1]}".encode(),
        )
        attempt = _Attempt()

        def beat(*details: Any) -> None:
            payloads = _payloads.to_payloads(details) if details else []
            self.worker.later(
                self.world.chance.delay("heartbeat"),
                lambda: self._beat(execution, token, payloads, attempt),
            )

        def end(kind: str, body: Any) -> None:
            self.worker.answer_activity(execution, token, kind, body)

        self._begin(attempt, command, info, beat, end)

    def _beat(
        self,
        execution: Execution,
        token: tuple[int, int],
        details: list[Payload],
        attempt: _Attempt,
    ) -> None:
        is_cancelled = self.world.server.beat(execution, token, details)
        if is_cancelled is not False:
            self.worker.later(
                self.world.chance.delay("heartbeat's answer"),
                lambda: attempt.cancel(requested=bool(is_cancelled)),
            )

    def execute_local(
        self,
        execution: Execution,
        body: WorkflowCommand,
        then: Callable[[ActivityResolution], None],
        attempt_number: int = 1,
    ) -> None:
        """Execute a local activity, again if it fails for now."""
        command = body.schedule_local_activity
        now = moment(self.world.now())
        info = self._info(execution, command, is_local=True)
        info.update(
            attempt=attempt_number,
            heartbeat_details=[],
            heartbeat_timeout=None,
            scheduled_time=now,
            current_attempt_scheduled_time=now,
            started_time=now,
            task_token=b"local",
        )

        def end(kind: str, result: Any) -> None:
            if kind == "completed":
                resolution = jobs.completed(result)
            elif kind == "failed" and _is_tried_again(command, result, attempt_number):
                self.worker.later(
                    0.2 * 2 ** (attempt_number - 1),
                    lambda: self.execute_local(execution, body, then, attempt_number + 1),
                )
                return
            else:
                resolution = jobs.failed(result)
            self.worker.later(0.0, lambda: then(resolution))

        self._begin(_Attempt(), command, info, lambda *details: None, end)

    def _info(self, execution: Execution, command: Any, *, is_local: bool) -> dict[str, Any]:
        return {
            "activity_id": command.activity_id,
            "activity_type": command.activity_type,
            "arguments": list(command.arguments),
            "is_local": is_local,
            "namespace": "default",
            "schedule_to_close_timeout": None,
            "start_to_close_timeout": command.start_to_close_timeout.ToTimedelta(),
            "task_queue": execution.start.task_queue,
            "workflow_id": execution.id,
            "workflow_namespace": "default",
            "workflow_run_id": execution.run_id,
            "workflow_type": execution.start.type,
            "priority": Priority.default,
            "retry_policy": None,
        }

    def _begin(
        self,
        attempt: _Attempt,
        command: Any,
        fields: dict[str, Any],
        beat: Callable[..., None],
        end: Callable[[str, Any], None],
    ) -> None:
        arguments = fields.pop("arguments")
        info = activity.Info(**fields)
        context = copy_context()
        seconds = info.start_to_close_timeout or timedelta(days=1)
        coroutine = self._run(attempt, info, arguments, beat, end)
        loop = asyncio.get_running_loop()
        attempt.task = loop.create_task(coroutine, context=context)
        if not info.is_local:
            late = seconds.total_seconds() + 5.0
            timer = loop.call_later(late, lambda: attempt.cancel(requested=False))
            attempt.task.add_done_callback(lambda task: timer.cancel())

    async def _run(
        self,
        attempt: _Attempt,
        info: activity.Info,
        arguments: list[Payload],
        beat: Callable[..., None],
        end: Callable[[str, Any], None],
    ) -> None:
        current.set(self)
        activity._Context.set(
            activity._Context(
                info=lambda: info,
                heartbeat=beat,
                cancelled_event=attempt.cancelled,
                worker_shutdown_event=_shutdown,
                shield_thread_cancel_exception=None,
                payload_converter_class_or_instance=_payloads,
                runtime_metric_meter=MetricMeter.noop,
                client=self.client,
                cancellation_details=attempt.details,
            )
        )
        try:
            body: Any
            value = await self.activities.call(info.activity_type, arguments)
            kind, body = "completed", _payloads.to_payloads([value])[0]
        except asyncio.CancelledError:
            if not attempt.by_request:
                return  # The schedule is over.
            kind, body = "canceled", None
        except Exception as error:
            kind, body = "failed", self._failure(error)
        if not self.is_dead:
            end(kind, body)

    def _failure(self, error: Exception) -> Failure:
        failure = Failure()
        if not isinstance(error, ApplicationError | CancelledError):
            self.world.on_error(error)
        _failures.to_failure(error, _payloads, failure)
        return failure


def _is_tried_again(command: Any, failure: Failure, attempt: int) -> bool:
    is_final = failure.application_failure_info.non_retryable
    most = command.retry_policy.maximum_attempts
    return not is_final and not 0 < most <= attempt


class Activities:
    """The activities that a process has registered, by name."""

    def __init__(self, functions: list[Callable[..., Any]], dynamic: Callable[..., Any]) -> None:
        definitions = map(activity._Definition.must_from_callable, functions)
        self._known = {str(each.name): each for each in definitions}
        self._dynamic = dynamic

    def call(self, name: str, payloads: list[Payload]) -> Coroutine[Any, Any, Any]:
        """Return the coroutine of one call."""
        known = self._known[name]
        types = (
            known.arg_types if known.arg_types and len(known.arg_types) == len(payloads) else None
        )
        arguments = _payloads.from_payloads(payloads, types) if payloads else []
        call: Coroutine[Any, Any, Any] = known.fn(*arguments)
        return call
