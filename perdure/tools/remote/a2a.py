"""One call of a remote agent: sends the message once, polls the resulting task, finds it again,
cancels it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

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
    Task,
)
from a2a.utils.errors import TaskNotCancelableError

from ...messages import ToolResult
from ...redaction import get_logger
from ..kind import KindCall
from .a2a_card import BINDINGS, HTTP_JSON, card_of
from .a2a_http import ANSWER_SECONDS, FAULTS, NONSENSE, AgentError, AgentLost, fault_of, http_client
from .a2a_results import has_failed, is_at_rest, result_of, result_of_message, state_name
from .settings import RemoteSettings, remote_settings

MAX_ID = 256
FIRST_WAIT, LONGEST_WAIT, GROWTH = 0.05, 5.0, 1.6
"""Seconds between two polls of a task."""
LAST_WORDS = 2
"""Number of messages requested from the task's history: an agent's answer may be the last one."""
CANCEL_SECONDS = 5.0
_SOON = ClientCallContext(timeout=ANSWER_SECONDS)
_log = get_logger("perdure.tools")


class RemoteCall:
    """One call, from its message to the result. Heartbeats report changes of the task."""

    def __init__(
        self, client: Client, settings: RemoteSettings, call: KindCall, card: AgentCard
    ) -> None:
        self._client = client
        self._settings = settings
        self._call = call
        is_in_path = any(each.protocol_binding == HTTP_JSON for each in card.supported_interfaces)
        self._not_in_ids = set("/?#") if is_in_path else set()
        """A task's id becomes a part of its addresses there."""
        self._message_id = call.context.idempotency_key
        self._task: Task | None = None
        self._beat: dict[str, str] = {}
        """The details of the last heartbeat."""

    async def result(self) -> ToolResult:
        """Return the agent's answer. Raises AgentError if it is unavailable.

        When cancelled, it also cancels the remote task, unless another attempt of this call
        continues it.
        """
        try:
            await self._find_again()
            message = None if self._task else await self._send()
            if message is None:
                await self._follow()
        except asyncio.CancelledError:
            if not await self._call.context.superseded():
                await self.cancel()
            raise
        try:
            if message is not None:
                return result_of_message(message)
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
            self._task = Task(id=known)
            await self._poll()

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

    async def _send(self) -> Message | None:
        """Send the message, and return the answer if that is no task."""
        arguments = self._call.arguments
        message = Message(
            message_id=self._message_id,
            role=Role.ROLE_USER,
            parts=[Part(text=arguments["message"])],
            context_id=arguments.get("context_id") or "",
            task_id=arguments.get("task_id") or "",
        )
        try:
            request = SendMessageRequest(message=message)
            [answer] = [each async for each in self._client.send_message(request)]
            if answer.HasField("message"):
                return answer.message
            self._keep(answer.task)
        except FAULTS as error:
            fault = fault_of(error)
            kind = AgentLost if fault.outcome_unknown else AgentError
            raise kind(self._error_text(fault.text)) from error
        return None

    async def _follow(self) -> None:
        """Poll the task until it is at rest."""
        wait = FIRST_WAIT
        while self._task is not None and not is_at_rest(self._task):
            before = self._beat
            await asyncio.sleep(wait)
            await self._poll()
            wait = FIRST_WAIT if self._beat != before else min(wait * GROWTH, LONGEST_WAIT)

    async def _poll(self) -> None:
        """Poll the task, repeatedly after failures that may pass."""
        assert self._task is not None
        id, failing_since = self._task.id, time.monotonic()
        wait = FIRST_WAIT
        while True:
            try:
                request = GetTaskRequest(id=id, history_length=LAST_WORDS)
                return self._keep(await self._client.get_task(request, context=_SOON))
            except FAULTS as error:
                fault = fault_of(error)
                left = self._settings.options.reconnect_timeout - (time.monotonic() - failing_since)
                if not fault.passing or left <= 0:
                    raise self._loss(
                        f"its task {id} can't be followed any more: {fault.text}"
                    ) from error
            await asyncio.sleep(min(wait, left))
            wait = min(wait * GROWTH, LONGEST_WAIT)

    def _keep(self, task: Task) -> None:
        """Keep the task's current state. Raises ValueError for a task without a usable id."""
        if not task.id or len(task.id) > MAX_ID or self._not_in_ids & set(task.id):
            raise ValueError(f"a task with the id {task.id[:80]!r}, which can't be asked for")
        self._task = task
        beat = {"state": state_name(task), "taskId": task.id, "contextId": task.context_id[:MAX_ID]}
        if beat != self._beat:
            self._beat = beat
            self._call.context.heartbeat(beat)


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
            httpx_client=http,
            streaming=False,
            polling=True,
            supported_protocol_bindings=list(BINDINGS),
        )
        yield RemoteCall(ClientFactory(config).create(card), settings, call, card)
