"""One call of a remote agent: sends the message once, follows the resulting task, finds it again,
cancels it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

from a2a.client import Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
)
from a2a.utils.errors import MethodNotFoundError, TaskNotCancelableError, UnsupportedOperationError

from ...messages import ToolResult
from ...redaction import get_logger
from ..kind import KindCall
from .a2a_card import BINDINGS, HTTP_JSON, card_of
from .a2a_http import ANSWER_SECONDS, FAULTS, NONSENSE, AgentError, AgentLost, fault_of, http_client
from .a2a_results import (
    add_artifact,
    has_failed,
    is_at_rest,
    result_of,
    result_of_message,
    state_name,
)
from .settings import RemoteSettings, remote_settings

MAX_ID = 256


class TaskNews:
    """The current state of the task, or the message that is the whole answer. Heartbeats report
    changes of the task.
    """

    def __init__(self, heartbeat: Callable[..., None], *, is_in_path: bool = False) -> None:
        """`is_in_path`: whether the task's id becomes a part of its addresses."""
        self._heartbeat = heartbeat
        self._not_in_ids = set("/?#") if is_in_path else set()
        self.task: Task | None = None
        self.message: Message | None = None
        self.beat: dict[str, str] = {}
        """The details of the last heartbeat."""

    @property
    def is_over(self) -> bool:
        """Return whether the call is complete: there is a message, or the task is at rest."""
        return self.message is not None or (self.task is not None and is_at_rest(self.task))

    def take(self, event: StreamResponse) -> None:
        """Take an event; ignore those of other tasks. Raises ValueError for a task without a usable
        id.
        """
        if not self._is_about_this(event):
            return
        match event.WhichOneof("payload"):
            case "message":
                self.message = event.message
            case "task":
                self.task = event.task
            case "status_update":
                update = event.status_update
                self._task(update.task_id, update.context_id).status.CopyFrom(update.status)
            case "artifact_update":
                news = event.artifact_update
                add_artifact(self._task(news.task_id, news.context_id), news)
        if self.task is not None:
            self._beat(self.task)

    def _is_about_this(self, event: StreamResponse) -> bool:
        """Return whether the event belongs to the followed task; before there is one, any does."""
        ids = {event.task.id, event.status_update.task_id, event.artifact_update.task_id}
        return self.task is None or ids <= {"", self.task.id}

    def _task(self, task_id: str, context_id: str) -> Task:
        if self.task is None:
            self.task = Task(id=task_id, context_id=context_id)
        return self.task

    def _beat(self, task: Task) -> None:
        if not task.id or len(task.id) > MAX_ID or self._not_in_ids & set(task.id):
            self.task = None
            raise ValueError(f"a task with the id {task.id[:80]!r}, which can't be asked for")
        beat = {"state": state_name(task), "taskId": task.id, "contextId": task.context_id[:MAX_ID]}
        if beat != self.beat:
            self.beat = beat
            self._heartbeat(beat)


QUIET_SECONDS = 60.0
"""Seconds without news on a stream after which the task is polled."""
FIRST_WAIT, LONGEST_WAIT, GROWTH = 0.05, 10.0, 1.6
"""Seconds between two polls of a task."""
LAST_WORDS = 2
"""Number of messages requested from the task's history: an agent's answer may be the last one."""
CANCEL_SECONDS = 5.0
_SOON = ClientCallContext(timeout=ANSWER_SECONDS)
_log = get_logger("perdure.tools")


class RemoteCall:
    """One call, from its message to the result; the agent's card declares whether it streams."""

    def __init__(
        self, client: Client, settings: RemoteSettings, call: KindCall, card: AgentCard
    ) -> None:
        self._client = client
        self._settings = settings
        self._call = call
        self._streams = card.capabilities.streaming
        is_in_path = any(each.protocol_binding == HTTP_JSON for each in card.supported_interfaces)
        self._news = TaskNews(call.context.heartbeat, is_in_path=is_in_path)
        self._message_id = call.context.idempotency_key
        self._wait = FIRST_WAIT

    async def result(self) -> ToolResult:
        """Return the agent's answer. Raises AgentError if it is unavailable.

        When cancelled, it also cancels the remote task, unless another attempt of this call
        continues it.
        """
        try:
            await self._find_again()
            if self._task is None:
                await self._send()
            while not self._news.is_over:
                await self._follow()
        except asyncio.CancelledError:
            if not await self._call.context.superseded():
                await self.cancel()
            raise
        try:
            if self._news.message is not None:
                return result_of_message(self._news.message)
            assert self._task is not None
            return result_of(self._task, self._settings)
        except NONSENSE as error:
            raise self._loss(fault_of(error).text) from error

    async def cancel(self) -> None:
        """Cancel the remote task, if there is one. Errors are logged: nothing waits for it."""
        try:
            async with asyncio.timeout(CANCEL_SECONDS):
                if self._task is None:
                    await self._find_again(is_lost=True)
                if self._task is not None:
                    await self._client.cancel_task(
                        CancelTaskRequest(id=self._task.id), context=_SOON
                    )
        except TaskNotCancelableError:
            return
        except TimeoutError:
            self._warn("it does not answer in time")
        except AgentError as error:
            self._warn(str(error))
        except FAULTS as error:
            self._warn(fault_of(error).text)

    def _warn(self, why: str) -> None:
        what = f"The remote task {self._task.id}" if self._task else "The message"
        _log.warning(
            "%s of tool %r may continue without this run: %s", what, self._settings.name, why
        )

    def _loss(self, what: str) -> AgentError:
        return AgentLost(self._error_text(what))

    def _error_text(self, what: str) -> str:
        return f"the agent at {self._settings.address} can't be used: {what}"

    @property
    def _task(self) -> Task | None:
        return self._news.task

    async def _find_again(self, *, is_lost: bool = False) -> None:
        """Find the task that an earlier attempt of this call may have begun."""
        context = self._call.context
        if context.attempt == 1 and not is_lost:
            return
        beat = context.last_heartbeat[0] if context.last_heartbeat else None
        try:
            known = beat["taskId"] if isinstance(beat, dict) else await self._sent_before()
        except FAULTS as error:
            _log.info(
                "The agent of tool %r does not list its tasks: %s",
                self._settings.name,
                fault_of(error).text,
            )
            return
        if known is not None:
            self._news.task = Task(id=known)
            await self._look()

    async def _sent_before(self) -> str | None:
        """Return the id of the task whose history contains this call's message.

        A failed one counts only if the file does not want failed executions repeated.
        """
        if asked := self._call.arguments.get("task_id"):
            tasks = [await self._client.get_task(GetTaskRequest(id=asked), context=_SOON)]
        else:
            request = ListTasksRequest(page_size=50, history_length=50)
            tasks = list((await self._client.list_tasks(request, context=_SOON)).tasks)
        context = self._call.context
        mine = [
            task
            for task in tasks
            if any(_is_of(said, context.idempotency_key) for said in task.history)
        ]
        standing = [task for task in mine if not has_failed(task)]
        if mine and not standing and self._settings.repeats:
            self._message_id = f"{context.idempotency_key}#{context.attempt}"
            return None
        return (standing or mine)[0].id if mine else None

    async def _send(self) -> None:
        arguments = self._call.arguments
        message = Message(
            message_id=self._message_id,
            role=Role.ROLE_USER,
            parts=[Part(text=arguments["message"])],
            context_id=arguments.get("context_id") or "",
            task_id=arguments.get("task_id") or "",
        )
        try:
            await self._read(self._client.send_message(SendMessageRequest(message=message)))
        except FAULTS as error:
            fault = fault_of(error)
            if self._task is None:
                if fault.outcome_unknown:
                    raise self._loss(fault.text) from error
                raise AgentError(self._error_text(fault.text)) from error
        if self._task is None and self._news.message is None:
            raise self._loss("it has answered with neither a task nor a message")

    async def _follow(self) -> None:
        """Wait for news of the task: on a stream if the agent streams, else by polling."""
        before = self._news.beat
        if self._streams:
            await self._listen()
        if not self._news.is_over:
            self._wait = (
                FIRST_WAIT if self._news.beat != before else min(self._wait * GROWTH, LONGEST_WAIT)
            )
            await asyncio.sleep(self._wait)
            await self._look()

    async def _listen(self) -> None:
        assert self._task is not None
        id = self._task.id
        try:
            await self._read(self._client.subscribe(SubscribeToTaskRequest(id=id)))
        except MethodNotFoundError:
            self._streams = False
        except UnsupportedOperationError as error:
            _log.debug("no stream of task %s: %s", id, error)  # it has ended
        except FAULTS as error:
            _log.debug("a stream of task %s broke: %s", id, error)

    async def _look(self) -> None:
        """Poll the task, repeatedly after failures that may pass."""
        assert self._task is not None
        id, failing_since = self._task.id, time.monotonic()
        wait = FIRST_WAIT
        while True:
            try:
                request = GetTaskRequest(id=id, history_length=LAST_WORDS)
                task = await self._client.get_task(request, context=_SOON)
                self._news.take(StreamResponse(task=task))
                return
            except FAULTS as error:
                fault = fault_of(error)
                left = self._settings.options.reconnect_timeout - (time.monotonic() - failing_since)
                if not fault.passing or left <= 0:
                    raise self._loss(
                        f"its task {id} can't be followed any more: {fault.text}"
                    ) from error
            await asyncio.sleep(min(wait, left))
            wait = min(wait * GROWTH, LONGEST_WAIT)

    async def _read(self, events: AsyncIterator[StreamResponse]) -> None:
        """Take events until the task is at rest, the stream ends, or it stays silent for a
        while.
        """
        async with aclosing(cast("Any", events)) as stream:
            while not self._news.is_over:
                event = await self._next(stream)
                if event is None:
                    return
                self._news.take(event)

    async def _next(self, stream: AsyncIterator[StreamResponse]) -> StreamResponse | None:
        """Return the next event; None at the end, or after a silence if there is a task to poll."""
        try:
            async with asyncio.timeout(QUIET_SECONDS if self._task else None):
                return await anext(stream, None)
        except TimeoutError:
            return None


def _is_of(message: Message, key: str) -> bool:
    """Return whether an attempt of the call with that key has sent the message."""
    return message.message_id.partition("#")[0] == key


@asynccontextmanager
async def remote_call(call: KindCall) -> AsyncIterator[RemoteCall]:
    """Provide the call, with its own connection while the block runs.

    The official client would read for at most 5 s with its own HTTP client. Raises ValueError for a
    card that it can't use.
    """
    settings = remote_settings(call.tool)
    card = card_of(call.details)
    async with http_client(settings, settings.credentials(call.details.get("auth") or {})) as http:
        config = ClientConfig(
            httpx_client=http, polling=True, supported_protocol_bindings=list(BINDINGS)
        )
        yield RemoteCall(ClientFactory(config).create(card), settings, call, card)
