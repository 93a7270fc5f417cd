"""The stream of one AG-UI request: the state of its thread, then the events of the run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ag_ui import core
from starlette.requests import Request

from ..conversation import Append, Rewrite
from ..events import RunEvent
from ..messages import Message, Usage
from ..tool_calls import PendingApproval
from .chats import Chat, CompleteText, WaitsForPerson, follow, waiting_id
from .gateway import FoundRun
from .operations import problem_of_request
from .sse import frame
from .words import decision_schema, output_text, with_approvers

OURS = "perdure"
"""The key of perdure's own data in states and metadata."""


@dataclass
class _Thread:
    """The messages of a thread, collected from a run's events."""

    session: str
    run: str
    messages: list[core.Message] = field(default_factory=list)

    def begin(self, messages: Sequence[Message]) -> None:
        """Take the run's initial messages."""
        self.messages = []
        for number, message in enumerate(messages):
            self._add(message, f"{self.session}.{number}", f"{self.session}.{number}")

    def take(self, event: RunEvent) -> None:
        """Apply an event's changes of the conversation; messages trimmed from the model's view
        stay.
        """
        for place, operation in enumerate(event.operations):
            if isinstance(operation, Rewrite):
                self.begin(operation.messages)
            elif isinstance(operation, Append):
                for number, message in enumerate(operation.messages):
                    own = f"{self.run}.{event.iteration}"
                    self._add(
                        message,
                        own if message.role == "assistant" else f"{own}.{place}.{number}",
                        own,
                    )

    def _add(self, message: Message, id: str, round: str) -> None:
        match message.role:
            case "user":
                self.messages.append(core.UserMessage(id=id, content=message.text))
            case "assistant":
                calls = [
                    core.ToolCall(
                        id=f"{round}.{each.id}",
                        function=core.FunctionCall(name=each.name, arguments=each.arguments),
                    )
                    for each in message.tool_calls
                ]
                self.messages.append(
                    core.AssistantMessage(id=id, content=message.text, tool_calls=calls or None)
                )
                self._round = round
            case "tool":
                call = f"{self._round}.{message.metadata.get('tool_call_id')}"
                self.messages.append(
                    core.ToolMessage(id=f"{call}.result", content=message.text, tool_call_id=call)
                )

    _round: str = ""
    """The prefix of the calls' ids to which results belong."""

    def snapshot(self, given: Sequence[core.Message]) -> core.MessagesSnapshotEvent:
        """Return all messages, with the client's own ids for equal messages."""
        theirs = [each for each in given if each.role in ("user", "assistant", "tool")]
        told = list(self.messages)
        for place, (own, other) in enumerate(zip(told, theirs, strict=False)):
            if (own.role, own.content) == (other.role, _text_of(other.content)):
                told[place] = own.model_copy(update={"id": other.id, "content": other.content})
        return core.MessagesSnapshotEvent(messages=told)


def _text_of(content: Any) -> Any:
    """Return the text of a person's message with text and files; any other content unchanged."""
    if not isinstance(content, list):
        return content
    return "".join(each.text for each in content if isinstance(each, core.TextPart))


class ThreadStream:
    """The events of one request: the state of the thread, then the events of its run."""

    def __init__(
        self, chat: Chat, found: FoundRun, given: core.RunAgentInput, request: Request
    ) -> None:
        self._chat = chat
        self._found = found
        self._given = given
        self._request = request
        self._is_modern = given.protocol_version is not None
        """Whether the client is 1.0 or newer: older ones fail at unknown outcomes."""
        self._thread = _Thread(found.id.rpartition("/")[0], found.id)
        self._position = "0"
        self._open: tuple[str, str] | None = None
        """Kind and id of the open message."""
        self._calls: set[str] = set()
        self._usage = Usage()

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the stream, which ends with exactly one terminal event."""
        version = core.PROTOCOL_VERSION if self._is_modern else None
        try:
            yield _frame(core.RunStartedEvent(**self._ids, protocol_version=version))
            async with aclosing(
                self._chat.gateway.ending.waits.until_cut(self._prelude())
            ) as events:
                async for event in events:
                    yield _frame(event)
            async with aclosing(self._run_events()) as run_events:
                async for event in run_events:
                    yield _frame(event)
        except Exception as error:
            problem = problem_of_request(error, self._request)
            yield _frame(core.RunErrorEvent(message=str(problem), code=problem.kind))

    async def _run_events(self) -> AsyncGenerator[core.BaseEvent, None]:
        shown = CompleteText(has_begun=self._position != "0")
        following = follow(self._chat.gateway, self._found, self._position, shown)
        async with aclosing(following) as events:
            async for item in events:
                for event in self._translated(item):
                    yield event

    @property
    def _ids(self) -> dict[str, str]:
        return {"thread_id": self._given.thread_id, "run_id": self._given.run_id}

    async def _prelude(self) -> AsyncGenerator[core.BaseEvent, None]:
        """Yield the state of the thread after the last recorded change of its messages."""
        # Read before the events: where none changes the messages, these are the initial ones.
        initial = await self._found.handle.messages()
        past = await self._found.handle.events(children=True)
        while past and not (past[-1].type == "messages_updated" and past[-1].run_id is None):
            past.pop()
        if past:
            self._position = past[-1].position
        else:
            self._thread.begin(initial)
        for event in past:
            self._follow_event(event)
        yield self._thread.snapshot(self._given.messages)
        yield await self._state()

    def _follow_event(self, event: RunEvent) -> None:
        if event.run_id is None:
            if event.type == "llm_complete":
                self._usage += Usage.model_validate(event.data["usage"])
            if event.type == "messages_updated":
                if not self._thread.messages:
                    before = [
                        each.messages for each in event.operations[:-1] if isinstance(each, Append)
                    ]
                    self._thread.begin([message for each in before for message in each])
                    event = event.model_copy(update={"operations": event.operations[-1:]})
                self._thread.take(event)

    async def _state(self) -> core.BaseEvent:
        """Return the client's own state, with the run's status under perdure's key."""
        status = await self._found.handle.status()
        own = {
            "run": self._found.id,
            "status": status.status,
            "iteration": status.iteration,
            "costUsd": status.cost_usd,
            "waiting": [each.name for each in status.pending_approvals],
        }
        given = self._given.state if isinstance(self._given.state, dict) else {}
        return core.StateSnapshotEvent(snapshot={**given, OURS: own})

    def _translated(self, item: RunEvent | WaitsForPerson) -> Iterator[core.BaseEvent]:
        return (
            self._interruption(item) if isinstance(item, WaitsForPerson) else self._events_of(item)
        )

    def _events_of(self, event: RunEvent) -> Iterator[core.BaseEvent]:
        """Yield the protocol's events for an event of the run."""
        if event.run_id is not None:
            return  # Of child runs, only waits are shown.
        own = f"{self._found.id}.{event.iteration}"
        if event.type not in ("token", "thinking"):
            yield from self._close()
        match event.type:
            case "token":
                yield from self._more("text", own, event.data["token"])
            case "thinking":
                yield from self._more("thinking", f"{own}.thinking", event.data["token"])
            case "text_reset":
                yield self._thread.snapshot(self._given.messages)
            case "tool_call_start":
                yield from self._call(
                    own, event.call_id, event.data["name"], event.data["arguments"]
                )
            case "tool_result":
                call = f"{own}.{event.call_id}"
                result = event.data["result"]
                yield core.ToolCallResultEvent(
                    message_id=f"{call}.result", tool_call_id=call, content=result
                )
            case "messages_updated":
                yield from self._steering_of(event)
            case "llm_complete":
                self._follow_event(event)
            case "done" | "cancelled" | "failed":
                if why := event.data.get("cutShort"):
                    yield core.CustomEvent(name=f"{OURS}.cut_short", value=why)
                yield self._end(event)
            case "llm_start" | "permission_requested":
                pass
            case _:
                yield core.CustomEvent(name=f"{OURS}.{event.type}", value=event.data)

    def _more(self, kind: str, id: str, text: str) -> Iterator[core.BaseEvent]:
        if self._open != (kind, id):
            yield from self._close()
            self._open = (kind, id)
            if kind == "text":
                yield core.TextMessageStartEvent(message_id=id, role="assistant")
            else:
                yield core.ReasoningStartEvent(message_id=id)
                yield core.ReasoningMessageStartEvent(message_id=id)
        content = (
            core.TextMessageContentEvent if kind == "text" else core.ReasoningMessageContentEvent
        )
        yield content(message_id=id, delta=text)

    def _close(self) -> Iterator[core.BaseEvent]:
        if self._open is None:
            return
        (kind, id), self._open = self._open, None
        if kind == "text":
            yield core.TextMessageEndEvent(message_id=id)
        else:
            yield core.ReasoningMessageEndEvent(message_id=id)
            yield core.ReasoningEndEvent(message_id=id)

    def _call(
        self, own: str, id: str | None, name: str, arguments: str
    ) -> Iterator[core.BaseEvent]:
        call = f"{own}.{id}"
        self._calls.add(call)
        yield core.ToolCallStartEvent(tool_call_id=call, tool_call_name=name, parent_message_id=own)
        if arguments:
            yield core.ToolCallArgsEvent(tool_call_id=call, delta=arguments)
        yield core.ToolCallEndEvent(tool_call_id=call)

    def _steering_of(self, event: RunEvent) -> Iterator[core.BaseEvent]:
        """Yield the steering messages that the run received."""
        before = len(self._thread.messages)
        self._thread.take(event)
        if any(isinstance(each, Rewrite) for each in event.operations):
            yield self._thread.snapshot(self._given.messages)
            return
        for message in self._thread.messages[before:]:
            if isinstance(message, core.UserMessage) and isinstance(message.content, str):
                yield core.TextMessageStartEvent(message_id=message.id, role="user")
                yield core.TextMessageContentEvent(message_id=message.id, delta=message.content)
                yield core.TextMessageEndEvent(message_id=message.id)

    def _interruption(self, waits: WaitsForPerson) -> Iterator[core.BaseEvent]:
        """Yield the waiting calls, and interrupt the run."""
        yield from self._close()
        interrupts = []
        for each in waits.pending:
            own = f"{each.run_id or self._found.id}.{each.iteration}"
            call = f"{own}.{each.call_id}"
            if call not in self._calls:
                yield from self._call(own, each.call_id, each.name, output_text(each.arguments))
            interrupts.append(_interrupt(self._found, each, call))
        yield self._finish(core.RunFinishedInterruptOutcome(interrupts=interrupts))

    def _end(self, event: RunEvent) -> core.BaseEvent:
        if event.type == "failed":
            return core.RunErrorEvent(message=event.data["message"], code=event.data["kind"])
        if event.type == "done":
            return self._finish(core.RunFinishedSuccessOutcome(), result=event.data["response"])
        if self._is_modern:
            return self._finish(core.RunFinishedCancelledOutcome())
        return core.RunErrorEvent(message="The run was cancelled", code="cancelled")

    def _finish(self, outcome: core.RunFinishedOutcome, result: Any = None) -> core.BaseEvent:
        used = core.TokenUsage(
            input_tokens=self._usage.input_tokens, output_tokens=self._usage.output_tokens
        )
        usage = [used] if self._is_modern else None
        return core.RunFinishedEvent(**self._ids, outcome=outcome, result=result, usage=usage)


def _frame(event: core.BaseEvent) -> bytes:
    return frame(event.model_dump_json(by_alias=True))


def _interrupt(found: FoundRun, pending: PendingApproval, call: str) -> core.Interrupt:
    """Return the question to a person as an interrupt."""
    deadline = (
        datetime.fromtimestamp(pending.deadline, UTC).isoformat() if pending.deadline else None
    )
    run = None if pending.run_id == found.id else pending.run_id
    more = {
        "digest": pending.digest,
        "callId": pending.call_id,
        "run": run or found.id,
        "schema": pending.parameters,
    }
    return core.Interrupt(
        id=waiting_id(found, run, pending.digest),
        reason="input_required" if pending.question else "tool_call",
        message=with_approvers(
            pending.question or pending.reason or f"{pending.name} waits for an approval", pending
        ),
        tool_call_id=call,
        response_schema=decision_schema(pending),
        expires_at=deadline,
        metadata={OURS: {**more, "choices": pending.choices} if pending.question else more},
    )
