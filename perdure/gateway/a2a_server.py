"""Serves agents as A2A agents: a context is a session, a task is one of its runs; only Temporal
stores them.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing, contextmanager, suppress
from functools import wraps
from typing import Any

from a2a.helpers import new_text_artifact
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import RequestHandler
from a2a.server.request_handlers.request_handler import validate_request_params
from a2a.server.routes import create_jsonrpc_routes
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
)
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    InternalError,
    InvalidParamsError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToJson
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ..errors import RunError
from ..events import TERMINAL_EVENTS, RunEvent
from ..json_types import JsonObject
from ..protocol.search_attributes import SESSION, quote
from ..redaction import get_logger
from .a2a_card import card_answer
from .a2a_decisions import decide, was_decision
from .a2a_push import add_config, config_of, configs_of, remove_config
from .a2a_status import (
    ANSWER,
    ArtifactText,
    completed_status,
    context_of,
    failure_status,
    piece,
    status_update,
    still_working,
    waiting_status,
    working_status,
)
from .ending import GatewayEnds
from .gateway import FoundRun, Gateway, OfferedAgent, digest_of
from .held import KIND, begun, until_held
from .identity import Identity
from .operations import JsonRpcEntrance, json_rpc_refusal
from .problems import HttpProblem, problem_of
from .words import output_text

logger = get_logger("perdure.gateway")

MAX_PAGE_SIZE = 100
MAX_MESSAGE_VALUES = 5_000
"""JSON values in one request: this many take a tenth of a second."""
MAX_PARTS = 100
"""Parts of a message; also the limit of a request's other lists, except those in data and
metadata."""
_STATES = {"COMPLETED": TaskState.TASK_STATE_COMPLETED, "CANCELED": TaskState.TASK_STATE_CANCELED}


class A2aDialect:
    """`/a2a/AGENT`, and the cards; a single agent's card is also at the root."""

    name = "a2a"

    def routes(self, gateway: Gateway) -> list[BaseRoute]:
        """Return the routes of the dialect."""
        # It logs clients' mistakes with tracebacks and without a limit; failures of this code are
        # logged here.
        for name in ("server.routes.jsonrpc_dispatcher", "compat.v0_3.jsonrpc_adapter"):
            logging.getLogger(f"a2a.{name}").setLevel(logging.CRITICAL)
        routes: list[BaseRoute] = []
        for offer in gateway.offers.values():
            base = f"/a2a/{offer.name}"
            for route in create_jsonrpc_routes(
                _Handler(gateway, offer), base, enable_v0_3_compat=True
            ):
                route.app = JsonRpcEntrance(route.app, gateway, _require_small)
                routes.append(route)
            paths = [f"{base}/.well-known/agent-card.json"]
            paths += ["/.well-known/agent-card.json"] if len(gateway.offers) == 1 else []
            routes += [
                Route(path, card_answer(offer, base, is_open=not gateway.authenticators))
                for path in paths
            ]
        return routes

    def refusal(self, problem: HttpProblem) -> Response:
        """Return the response to a request that is refused unread."""
        return json_rpc_refusal(problem)


@contextmanager
def _protocol_errors() -> Iterator[None]:
    """Turn exceptions into the protocol's errors."""
    try:
        yield
    except A2AError:
        raise
    except Exception as error:
        raise _refusal(error) from error


@contextmanager
def _unless_held() -> Iterator[None]:
    """Continue after the block if the run is held: its task shows the hold."""
    try:
        yield
    except HttpProblem as problem:
        if problem.kind != KIND:
            raise


def _refusal(error: Exception) -> A2AError:
    """Return the protocol's error for a problem."""
    problem = problem_of(error)
    if problem is None:
        logger.error("a request of A2A has failed", exc_info=error)
        return InternalError("the gateway has failed; see its log")
    if problem.status == 404:
        return TaskNotFoundError(str(problem))
    return InvalidParamsError(str(problem)) if problem.status < 500 else InternalError(str(problem))


def _method(
    method: Callable[..., Coroutine[Any, Any, Any]],
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Wrap a protocol method: check its required parameters, and turn exceptions into the
    protocol's errors.
    """

    @wraps(method)
    async def answer(self: _Handler, params: Any, context: ServerCallContext) -> Any:
        with _protocol_errors():
            return await method(self, params, context)

    checked: Callable[..., Coroutine[Any, Any, Any]] = validate_request_params(answer)
    return checked


class _Handler(RequestHandler):
    """The methods of the protocol, for one agent."""

    def __init__(self, gateway: Gateway, offer: OfferedAgent) -> None:
        self._gateway = gateway
        self._offer = offer

    @_method
    async def on_message_send(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> Task | Message:
        found, identity = await self._accept_message(params, context)
        if not params.configuration.return_immediately:
            with _unless_held():
                await self._wait_until_settled(found)
        return await self._task(await self._gateway.run(identity, found.id))

    @validate_request_params
    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Any, None]:
        with _protocol_errors():
            found, _ = await self._accept_message(params, context)
            async for each in self._updates(found):
                yield each

    @_method
    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        return await self._task(await self._run_of(params.id, context))

    @_method
    async def on_list_tasks(
        self, params: ListTasksRequest, context: ServerCallContext
    ) -> ListTasksResponse:
        identity = _identity_of(context)
        size = params.page_size or 50
        if not 1 <= size <= MAX_PAGE_SIZE:
            raise InvalidParamsError(f"pageSize {size}: expected 1 to {MAX_PAGE_SIZE}")
        conditions = [f"{SESSION.name} = {quote(params.context_id)}"] if params.context_id else []
        listed = await self._gateway.list(identity, conditions, limit=size)
        tasks = [await self._task(await self._gateway.run(identity, each.id)) for each in listed]
        return ListTasksResponse(tasks=tasks, page_size=size, total_size=len(tasks))

    @_method
    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        found = await self._run_of(params.id, context)
        await found.handle.cancel("the client has cancelled the task")
        with _unless_held():
            await self._wait_until_settled(found)
        return await self._task(await self._run_of(params.id, context))

    @validate_request_params
    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Any, None]:
        with _protocol_errors():
            found = await self._run_of(params.id, context)
            if found.has_ended:
                raise UnsupportedOperationError(
                    f"the task {params.id!r} has ended: read it by GetTask"
                )
            async for each in self._updates(found):
                yield each

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        raise UnsupportedOperationError("the public card is the only one")

    @_method
    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        found = await self._run_of(params.task_id, context)
        return await add_config(self._gateway, found, params)

    @_method
    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        found = await self._run_of(params.task_id, context)
        return await config_of(found, params.id)

    @_method
    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        found = await self._run_of(params.task_id, context)
        return await configs_of(found)

    @_method
    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        found = await self._run_of(params.task_id, context)
        await remove_config(self._gateway, found, params.id)

    async def _run_of(self, id: str, context: ServerCallContext) -> FoundRun:
        return await self._gateway.run(_identity_of(context), id)

    async def _accept_message(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> tuple[FoundRun, Identity]:
        """Pass a message on, and register its push config for the task."""
        identity = _identity_of(context)
        found = await self._pass_on(params.message, identity)
        if params.configuration.HasField("task_push_notification_config"):
            config = params.configuration.task_push_notification_config
            with suppress(UnsupportedOperationError):  # It has ended, and the answer says so.
                await add_config(self._gateway, found, config)
        return found, identity

    async def _pass_on(self, message: Message, identity: Identity) -> FoundRun:
        """Pass a message on: to a waiting call of its task, to the task's run, or as the next turn
        of its context.
        """
        if message.task_id:
            return await self._continue(message, identity)
        if not (text := _text_of(message)).strip():
            raise InvalidParamsError("expected a message with a text")
        chosen = (
            message.context_id
            or f"{self._offer.name}-{digest_of([identity.tenant, message.message_id])}"
        )
        session = await self._gateway.session(identity, chosen, self._offer)
        run = await session.send(text, message_id=digest_of([message.message_id]), by=identity.name)
        return await begun(self._gateway, identity, run)

    async def _continue(self, message: Message, identity: Identity) -> FoundRun:
        found = await self._gateway.run(identity, message.task_id)
        if found.has_ended:
            raise UnsupportedOperationError(
                f"the task {found.id!r} has ended: send the message with its contextId alone, to "
                "go on"
            )
        pending = (await found.handle.status()).pending_approvals
        if pending:
            await decide(self._gateway, identity, found, message, pending)
        elif not await was_decision(self._gateway, identity, found, message):
            return await self._steer(found, message, identity, _text_of(message))
        return found

    async def _steer(
        self, found: FoundRun, message: Message, identity: Identity, text: str
    ) -> FoundRun:
        """Send a message to a working run, and return the run that reads it, once."""
        key = digest_of([message.message_id])
        if (context := context_of(found.id)) == found.id:
            await found.handle.steer(text, by=identity.name, message_id=key)
            return found
        session = await self._gateway.session(identity, context)
        sent = await session.send(text, while_busy="steer", message_id=key, by=identity.name)
        return await begun(self._gateway, identity, sent)

    async def _wait_until_settled(self, found: FoundRun) -> None:
        """Wait until the run has ended or waits for a person. Raises `HttpProblem` if it is
        held.
        """
        async with aclosing(
            until_held(self._gateway, found.id, self._gateway.stream(found))
        ) as events:
            async for event in events:
                if event.type in TERMINAL_EVENTS or (
                    event.type == "permission_requested"
                    and (await found.handle.status()).pending_approvals
                ):
                    return

    async def _updates(self, found: FoundRun) -> AsyncGenerator[Any, None]:
        """Yield the task, then its updates, until it ends, waits for a person, or is held."""
        yield await self._task(found)
        try:
            async with aclosing(self._updates_of_events(found)) as updates:
                async for each in updates:
                    yield each
        except GatewayEnds:
            yield still_working(found)
        except HttpProblem as problem:
            if problem.kind != KIND:
                raise
            yield status_update(found, (await self._task(found)).status)

    async def _updates_of_events(self, found: FoundRun) -> AsyncGenerator[Any, None]:
        text = ArtifactText(None if self._offer.agent.outputs else self._gateway.stream_after)
        read = until_held(self._gateway, found.id, self._gateway.stream(found))
        async with aclosing(read) as events:
            async for event in events:
                if more := text.more(event):
                    yield piece(found, *more)
                if (status := await self._status_after(found, event)) is not None:
                    yield status_update(found, status)
                    return

    async def _status_after(self, found: FoundRun, event: RunEvent) -> TaskStatus | None:
        if event.type == "permission_requested":
            pending = (await found.handle.status()).pending_approvals
            return waiting_status(found, pending) if pending else None
        if event.type not in TERMINAL_EVENTS:
            return None
        if event.type == "done":
            return completed_status(found, event.data.get("cutShort"))
        if event.type == "cancelled":
            return TaskStatus(state=TaskState.TASK_STATE_CANCELED)
        return failure_status(found, f"{event.data['kind']}: {event.data['message']}")

    async def _task(self, found: FoundRun) -> Task:
        task = Task(id=found.id, context_id=context_of(found.id))
        if not found.has_ended:
            stands = await found.handle.status()
            pending = stands.pending_approvals
            task.status.CopyFrom(
                waiting_status(found, pending) if pending else working_status(found, stands.held)
            )
            return task
        try:
            result = await found.handle.result()
        except RunError as error:
            status = found.described.status
            state = _STATES.get(status.name if status else "")
            task.status.CopyFrom(
                TaskStatus(state=state)
                if state
                else failure_status(found, f"{error.kind}: {error}")
            )
            return task
        task.status.CopyFrom(completed_status(found, result.cut_short))
        task.artifacts.append(
            new_text_artifact(ANSWER, output_text(result.output), artifact_id=ANSWER)
        )
        return task


def _require_small(body: JsonObject) -> None:
    """Raise `HttpProblem` for long lists, since the library makes several errors for each invalid
    element, and for many values in total, since it reads each of them slowly.
    """
    ahead: list[tuple[Any, bool]] = [(body, True)]
    for value, is_bounded in ahead:
        if len(ahead) > MAX_MESSAGE_VALUES:
            raise HttpProblem(
                413,
                "too_many_values",
                f"expected at most {MAX_MESSAGE_VALUES:,} JSON values in the body",
            )
        if isinstance(value, dict):
            ahead += [(each, is_bounded and name != "metadata") for name, each in value.items()]
        elif isinstance(value, list):
            if is_bounded and len(value) > MAX_PARTS:
                text = f"a list has {len(value):,} elements: expected at most {MAX_PARTS}"
                raise HttpProblem(422, "invalid", text)
            ahead += [(each, False) for each in value]


def _identity_of(context: ServerCallContext) -> Identity:
    identity: Identity = context.state["auth"]
    return identity


def _text_of(message: Message) -> str:
    """Return a message's texts, and its data as JSON. Raises `ContentTypeNotSupportedError` for
    files.
    """
    said: list[str] = []
    for part in message.parts:
        match part.WhichOneof("content"):
            case "text":
                said.append(part.text)
            case "data":
                said.append(MessageToJson(part.data, indent=None))
            case _:
                name = part.filename or part.url or part.media_type or "without a name"
                raise ContentTypeNotSupportedError(
                    f"the file {name!r:.200}: agents here take text and data, no files"
                )
    return "\n".join(said)
