"""A session: a conversation over several runs (`perdure docs sessions`), and the setup of its
runs.
"""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Generic, Literal

from temporalio.client import Client, WorkflowExecutionStatus
from typing_extensions import TypeVar

from ...agents import Agent, loaded_from, types_by_path
from ...errors import RenderError, RunNotFound
from ...events import RunEvent
from ...history.chain import Chain
from ...loop.state import LOOP_VERSION
from ...messages import Message, Part
from ...options import MAX_SECONDS, RunOptions, options_of
from ...payloads.converter import with_converter
from ...payloads.encryption.codec import sealed_text
from ...payloads.failures import require_sendable
from ...prompty.prepare import prepare
from ...prompty.rich_values import with_media_read
from ...protocol.session import (
    SessionInput,
    SessionMessage,
    SessionSetup,
    SessionStatus,
    Taken,
    WhileBusy,
)
from ...protocol.signatures import Voucher
from ...providers.registry import require_media, require_model
from ...redaction import redactor
from ...settings.agent_file import session_settings, with_cadence, with_on_failure
from ...settings.values import SessionSettings
from ...text import valid_json, valid_text
from ..handle import RunHandle
from ..output_type import OutputType, with_output_type
from ..run_input import loaded_agent, new_run
from ..starting import StartOptions, current_traceparent
from ..updates import PATIENCE_SECONDS
from .reading import PromisedChain, Reader, SessionRun
from .sending import (
    Delivery,
    SessionRequest,
    close_session,
    place_for,
    require_id,
    require_readable,
    require_session_id,
    require_while_busy,
    session_request,
    start_session,
)


def setup_of(
    agent: Agent,
    inputs: Mapping[str, Any] | None,
    options: RunOptions | Mapping[str, Any] | None,
    deps: Any = None,
    messages: Sequence[Message] | None = None,
) -> SessionSetup:
    """Return the setup of the runs of a session with this agent.

    Raises the errors of `start_run` before its request, and RenderError for a missing input.
    """
    given = {
        name: valid_json(value) for name, value in with_media_read(agent, inputs or {}).items()
    }
    chosen = with_on_failure(agent, options_of(options), "hold")
    before = instructions(agent, given) if messages is None else messages
    run = new_run(agent, given, chosen, before, deps)
    require_model(run.agent)
    return SessionSetup(
        agent=run.agent,
        agents=run.agents,
        handoffs=run.handoffs,
        messages=run.messages,
        inputs=run.inputs,
        deps=run.deps,
        options=run.options,
        given=run.given,
    )


def instructions(agent: Agent, given: Mapping[str, Any]) -> list[Message]:
    """Return the messages of the agent's prompt before the first message of a session.

    If the last user's message is only an input without a value, such as `{{question}}`, it is left
    out: the session's messages replace it. A thread without a value is empty. Raises RenderError
    for a missing input.
    """
    threads: dict[str, Any] = {
        each.name: []
        for each in agent.inputs or ()
        if each.kind == "thread" and each.name not in given
    }
    complete = {**threads, **given}
    for each in agent.inputs or ():
        is_open = each.kind == "string" and each.name not in given
        if is_open and (before := _messages_before(agent, complete, each.name)) is not None:
            return before
    try:
        return prepare(agent, complete)
    except RenderError as error:
        if error.missing_input is None:
            raise
        raise RenderError(f"{error}. {_ADVICE}", missing_input=error.missing_input) from error


_ADVICE = (
    "Give session(…, inputs={…}) the inputs that are the same in every turn. The session's "
    "messages follow those of the prompt; to let them replace an input, end the prompt with a "
    "user's message that is only that input"
)


def _messages_before(agent: Agent, given: Mapping[str, Any], name: str) -> list[Message] | None:
    """Return the messages before the last one, if that is a user's and only this input, which
    occurs nowhere else; else None.
    """
    said = f"said-{secrets.token_hex(16)}"
    try:
        *before, last = prepare(agent, {**given, name: said})
    except (RenderError, ValueError):
        # Another input is missing, or the prompt has no messages: the caller's rendering raises.
        return None
    is_alone = last.role == "user" and last.text.strip() == said and len(last.parts) == 1
    return before if is_alone and not any(said in message.text for message in before) else None


T = TypeVar("T", default=Any)

PLACES = 5
"""The messages that one handle sends at once: Temporal takes ten updates of one workflow from all
senders."""


def session(
    client: Client,
    agent: Agent | str | PathLike[str] | None,
    id: str,
    *,
    task_queue: str = "perdure",
    options: RunOptions | Mapping[str, Any] | None = None,
    inputs: Mapping[str, Any] | None = None,
    while_busy: WhileBusy | None = None,
    idle_timeout: float | None = None,
    tenant: str | None = None,
    priority: int | None = None,
    user: str | None = None,
    memo: Mapping[str, Any] | None = None,
    patience: float = PATIENCE_SECONDS,
    output_type: OutputType[T] | None = None,
    voucher: Voucher | None = None,
    deps: Any = None,
    messages: Sequence[Message] | None = None,
) -> Session[T]:
    """Return the session of that id; its first message begins it. This function contacts no server.

    `agent` may be None for a session that has begun. A path is read for every message: an edited
    file counts from the next turn on. `inputs` are for its prompt, `options` and `deps` for each
    run, as in `start_run`. `while_busy` decides about a message that arrives during a run, unless
    `Session.send` does. Runs that can't continue are held, unless `options` or the file set
    `on_failure` (`perdure docs waiting`). A session closes after `idle_timeout` seconds without a
    run or a message. The agent's file may have both (`metadata.perdure.session`). `user` is the
    person for whom the session is; `tenant`, `priority` and `memo` are as for `start_run`.
    `messages` are a conversation that the session continues, such as `RunHandle.messages` returns;
    None renders the agent's prompt. All these count when the session begins. `patience` is the time
    in seconds that a message may wait for a worker's answer. `output_type` is the type of each
    run's output, as in `start_run`. A `voucher` signs the messages, for the person it names.

    Raises ValueError for an invalid id (expected are
    1 to 200 printable characters without '/'), an `idle_timeout` that is not above 0, and another
    `while_busy`.
    """
    require_session_id(id)
    options_of(options)
    require_while_busy(while_busy)
    if idle_timeout is not None and not 0 < idle_timeout <= MAX_SECONDS:
        raise ValueError(
            f"idle_timeout={idle_timeout!r}: expected seconds above 0 and up to {MAX_SECONDS}, or "
            "None"
        )
    start: StartOptions = {"tenant": tenant, "priority": priority, "memo": memo}
    if output_type is None and isinstance(agent, Agent):
        output_type = loaded_from(agent).output_type
    arguments = _SessionArguments(
        agent,
        inputs,
        options,
        start,
        task_queue,
        while_busy,
        idle_timeout,
        user,
        voucher,
        deps,
        messages,
    )
    return Session(
        with_converter(client), id, arguments, patience=patience, output_type=output_type
    )


@dataclass(frozen=True)
class _SessionArguments:
    """Arguments of `session` that count when a session starts, or for each of its messages."""

    agent: Agent | str | PathLike[str] | None
    inputs: Mapping[str, Any] | None = None
    options: RunOptions | Mapping[str, Any] | None = None
    start: StartOptions = field(default_factory=lambda: StartOptions())
    task_queue: str = "perdure"
    while_busy: WhileBusy | None = None
    idle_timeout: float | None = None
    user: str | None = None
    voucher: Voucher | None = None
    deps: Any = None
    messages: Sequence[Message] | None = None


class Session(Generic[T]):
    """Sends messages to one session and reads it; `session` makes it.

    Before the first message it is `new`: it has no messages and no runs, `stream` waits, `close`
    and `cancel` raise `RunNotFound`. All methods raise that for the id of another workflow, and
    `RPCError` when the server does not answer.
    """

    def __init__(
        self,
        client: Client,
        id: str,
        arguments: _SessionArguments,
        *,
        patience: float,
        output_type: OutputType[T] | None = None,
    ) -> None:
        self.id = id
        """The workflow id; its runs are `ID/1`, `ID/2`, …"""
        self._client = client
        self._arguments = arguments
        self._output_type = output_type
        self._retry = patience
        self._reader = Reader(client, id)
        self._places = asyncio.Semaphore(PLACES)

    async def send(
        self,
        text: str,
        *,
        parts: Sequence[Part] = (),
        while_busy: WhileBusy | None = None,
        message_id: str | None = None,
        by: str | None = None,
        role: Literal["user", "task-delegation"] = "user",
    ) -> RunHandle[T]:
        """Send a message, and return the handle on the run that reads it, without waiting for its
        end.

        If there is no open session of the id, the message begins it. During a run, `steer` lets
        that run read the message before its next model call; an unread message opens the next turn.
        `queue` gives the message its own turn: the calls of the handle wait until that run begins,
        and raise `SessionError` of the kind `ended` when the session ends before. `reject` raises
        `SessionError` of the kind `busy`. `parts` are images, files and recordings, which follow
        the text; the text may be "" then. A message with parts is queued instead of steering. A
        message counts once per `message_id`; another text or part under the same id raises
        `SessionError` of the kind `refused`. `by` names the sender.

        Also raises `SessionError` for a closing session and when no worker answers in time
        (`unconfirmed`: send it again under its `message_id`); `RunNotFound` without an agent and
        without such a session; the errors of `start_run`, such as `UnsupportedMediaError` for a
        part that the agent's model does not take; `RenderError` for a prompt with an input without
        a value; `PayloadTooLargeError`; ValueError for a `message_id` that is not 1 to 200
        printable characters, and for another `while_busy`.
        """
        require_while_busy(while_busy)
        if message_id is not None:
            require_id(message_id, "message_id")
        agent = None if self._arguments.agent is None else self._loaded_agent(self._arguments.agent)
        settings = session_settings(agent) if agent is not None else SessionSettings()
        message = SessionMessage(
            text=valid_text(text),
            id=message_id or uuid.uuid4().hex,
            parts=list(parts),
            while_busy=while_busy or self._arguments.while_busy or settings.while_busy or "steer",
            by=by and valid_text(by),
            role=role,
            traceparent=current_traceparent(),
        )
        message = redactor(agent).value(message)
        delivery = await self._delivery(message, agent, settings)
        async with place_for(self._client, self.id, message), self._places:
            answer = await delivery.deliver(self._retry)
        taken: Taken = answer.value
        if taken.first_run_id:
            return self._handle(taken.run_id, origin=taken.first_run_id)
        return self._handle(
            taken.run_id,
            chain=PromisedChain(self._client, taken.run_id, self.id, answer.link),
        )

    def _handle(
        self, id: str, *, origin: str | None = None, chain: Chain | None = None
    ) -> RunHandle[T]:
        voucher, output_type = self._arguments.voucher, self._output_type
        agent = self._arguments.agent
        later = types_by_path(agent, output_type) if isinstance(agent, Agent) else None
        more: dict[str, Any] = {"chain": chain, "voucher": voucher, "later_types": later}
        return RunHandle(self._client, id, origin=origin, output_type=output_type, **more)

    def _loaded_agent(self, given: Agent | str | PathLike[str]) -> Agent:
        agent = loaded_agent(given)
        return agent if self._output_type is None else with_output_type(agent, self._output_type)

    async def _delivery(
        self, message: SessionMessage, agent: Agent | None, settings: SessionSettings
    ) -> Delivery:
        require_readable(message)
        await require_sendable(self._client, message, "The message", lambda: "Send less")
        request = None if agent is None else await self._session_request(agent, settings)
        if request is not None:
            require_media(request.input.setup.agent, [Message(role="user", parts=message.parts)])
            message = message.model_copy(update={"setup_digest": request.input.setup.digest})
        return Delivery(self._client, self.id, message, request, self._arguments.voucher)

    async def _session_request(self, agent: Agent, settings: SessionSettings) -> SessionRequest:
        arguments = self._arguments
        setup = setup_of(
            agent, arguments.inputs, arguments.options, arguments.deps, arguments.messages
        )
        setup.options = with_cadence(setup.options, self._client.service_client.config.target_host)
        input = SessionInput(
            setup=setup,
            loop_version=LOOP_VERSION,
            idle_timeout=settings.idle_timeout
            if arguments.idle_timeout is None
            else arguments.idle_timeout,
            user=arguments.user and valid_text(arguments.user),
        )
        if arguments.voucher:
            input.requested_by = arguments.voucher.request(self.id, input.content)
        known = redactor(agent)
        return await session_request(
            self._client, input, arguments.start, known, id=self.id, task_queue=arguments.task_queue
        )

    async def begin(self) -> None:
        """Begin the session without a message, unless it is open.

        Raises `RunNotFound` without an agent, and the errors of `send` before its request.
        """
        if self._arguments.agent is None:
            raise RunNotFound(
                f"session {self.id!r} needs an agent to begin: session(client, agent, id)"
            )
        agent = self._loaded_agent(self._arguments.agent)
        await start_session(
            self._client, await self._session_request(agent, session_settings(agent))
        )

    async def messages(self) -> list[Message]:
        """Return the complete conversation that the histories have, with trimmed messages and the
        open run's.
        """
        return await self._reader.messages()

    async def runs(self) -> list[RunHandle[T]]:
        """Return the handles on the runs that have begun, in order, as far as the histories go."""
        return [self._run(turn) for turn in await self._reader.turns()]

    async def status(self) -> SessionStatus:
        """Return the session's status from its workflow or, when no worker answers, from the
        histories.

        A session that waits for a person is `waiting` and has the pending approvals: decide them
        through `get_run` of its `run_id`. A session with a `held` run has the reasons: resume it
        through `get_run` of the `run_id`.
        """
        return await self._reader.status()

    async def stream(self, after: str = "") -> AsyncIterator[RunEvent]:
        """Yield the events of all runs, one run after the other, as they occur, until the session
        ends; each has a `run_id`.

        `after` is the `position` of the reader's last event. Each run ends with its own terminal
        event. In place of `messages`, these events have `operations`, which change the
        conversation. Runs that the namespace has removed are left out. Raises ValueError for an
        `after` that is not a position.
        """
        async for event in self._reader.stream(after, self._run):
            yield event

    def _run(self, turn: SessionRun) -> RunHandle[T]:
        return self._handle(turn.run_id, origin=turn.first_run_id)

    async def close(self) -> None:
        """Accept no more messages, and end after the open run and the queued ones; does nothing in
        a session that has ended.

        Raises `SessionError` when no worker answers in time.
        """
        described = await self._reader.describe()
        if described.status != WorkflowExecutionStatus.RUNNING:
            return
        await close_session(self._client, self.id, self._retry)

    async def cancel(self, reason: str = "") -> None:
        """Cancel the open run, and end the session without reading queued messages; does nothing in
        a session that has ended.
        """
        text = await sealed_text(self._client.data_converter, redactor().text(valid_text(reason)))
        await self._reader.describe()
        await self._client.get_workflow_handle(self.id).cancel(reason=text)
