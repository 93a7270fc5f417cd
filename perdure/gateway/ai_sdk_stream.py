"""The stream of one assistant message in the AI SDK's form: chunks of texts, calls and waits for a
person.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ..events import RunEvent
from ..json_types import JsonObject
from ..messages import Usage
from .chats import CompleteText, WaitsForPerson, added_messages, follow, waiting_id
from .ending import GatewayEnds
from .gateway import FoundRun, Gateway
from .operations import problem_of_request
from .problems import HttpProblem, run_headers
from .sse import HEADERS, frame, with_keepalives
from .words import FINISHES, with_approvers

STREAM_HEADERS = {**HEADERS, "x-vercel-ai-ui-message-stream": "v1"}
Chunk = JsonObject


class _Cut(Exception):
    """The stream can't continue: the page must resume it."""


class _CutResponse(StreamingResponse):
    """A response that breaks off where its frames demand it: a clean end would look like the end of
    the message.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except* (_Cut, GatewayEnds):
            pass  # The server closes the connection of an unfinished response.


def _version(request: Request) -> int:
    """Return the SDK's major version, which only the address carries. Raises `HttpProblem`."""
    given = request.query_params.get("v", "7")
    if given not in ("5", "6", "7"):
        raise HttpProblem(
            422,
            "invalid",
            f"v={given!r}: expected 5, 6 or 7, the major version of the package `ai`",
        )
    return int(given)


class MessageStream:
    """The chunks of one assistant message; `after` is the position where a resumed message
    continues.
    """

    def __init__(
        self,
        found: FoundRun,
        request: Request,
        gateway: Gateway,
        after: str = "0",
        shown: CompleteText | None = None,
    ) -> None:
        self._found = found
        self._request = request
        self._version = _version(request)
        self._gateway = gateway
        self._after = after
        self._shown = shown
        self._calls: set[str] = set()
        """The calls whose input this stream has sent."""
        self._open = ""
        """The kind of the open part: text or reasoning."""
        self._number = 0
        self._in_step = False
        self._usage, self._cost = Usage(), 0.0

    def answer(self) -> Response:
        """Return the response that sends the chunks."""
        headers = {**STREAM_HEADERS, **run_headers(self._found.id)}
        return _CutResponse(
            with_keepalives(self._frames()), media_type="text/event-stream", headers=headers
        )

    async def _frames(self) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(self._chunks()) as chunks:
                async for chunk in chunks:
                    yield frame(json.dumps(chunk, ensure_ascii=False))
        except (_Cut, GatewayEnds):
            raise
        except Exception as error:
            text = str(problem_of_request(error, self._request))
            yield frame(json.dumps({"type": "error", "errorText": text}, ensure_ascii=False))
        yield frame("[DONE]")

    async def _chunks(self) -> AsyncGenerator[Chunk, None]:
        run = {"run": self._found.id}
        yield {"type": "start", "messageId": self._found.id, "messageMetadata": {"perdure": run}}
        following = follow(self._gateway, self._found, self._after, self._shown)
        async with aclosing(following) as events:
            async for event in events:
                for chunk in (
                    self._requests_of(event)
                    if isinstance(event, WaitsForPerson)
                    else self._chunks_of(event)
                ):
                    yield chunk

    def _chunks_of(self, event: RunEvent) -> Iterator[Chunk]:
        """Yield the protocol's chunks for an event of the run."""
        match event.type:
            case "tool_call_start":
                yield from self._input(event, event.data["name"], event.data["arguments"])
            case "tool_result":
                yield self._result(event)
            case "permission_completed":
                yield from self._decision_of(event)
            case "permission_requested":
                # A call that needs approval is sent once it is known to wait; see `_requests_of`.
                yield from self._question_of(event)
            case _ if event.run_id is not None:
                pass  # Of child runs, only calls and decisions are sent.
            case "llm_start":
                yield from self._end_step()
                self._in_step = True
                yield {"type": "start-step"}
            case "token" | "thinking":
                yield from self._more(
                    "text" if event.type == "token" else "reasoning", event.data["token"]
                )
            case "text_reset":
                yield from self._reset(event)
            case "llm_complete":
                yield from self._close()
                yield self._metadata(event)
            case "messages_updated":
                yield from self._close()
                yield from self._steering_of(event)
            case "done" | "cancelled" | "failed":
                yield from self._end_of(event)
            case _:
                yield {
                    "type": "data-perdure",
                    "data": {"type": event.type, **event.data},
                    "transient": True,
                }

    def _more(self, kind: str, text: str) -> Iterator[Chunk]:
        if self._open != kind:
            yield from self._close()
            self._open, self._number = kind, self._number + 1
            yield {"type": f"{kind}-start", "id": str(self._number)}
        yield {"type": f"{kind}-delta", "id": str(self._number), "delta": text}

    def _close(self) -> Iterator[Chunk]:
        if self._open:
            yield {"type": f"{self._open}-end", "id": str(self._number)}
            self._open = ""

    def _reset(self, event: RunEvent) -> Iterator[Chunk]:
        """Take back the text of the step. Version 6 can't: the page resumes, and receives the valid
        text.
        """
        if self._version > 6:
            self._open = ""
            yield {"type": "reset-step"}
        elif not event.time:
            raise _Cut
        yield from self._close()

    def _end_step(self) -> Iterator[Chunk]:
        yield from self._close()
        if self._in_step:
            self._in_step = False
            yield {"type": "finish-step"}

    def _metadata(self, event: RunEvent) -> Chunk:
        self._usage += Usage.model_validate(event.data["usage"])
        self._cost += event.data["costUsd"] or 0.0
        usage = {"inputTokens": self._usage.input_tokens, "outputTokens": self._usage.output_tokens}
        return {
            "type": "message-metadata",
            "messageMetadata": {"perdure": {"usage": usage, "costUsd": self._cost}},
        }

    def _input(self, event: RunEvent, name: str, arguments: Any) -> Iterator[Chunk]:
        call = _call_id(event.iteration, event.call_id, event.run_id)
        self._calls.add(call)
        told: Chunk = {
            "type": "tool-input-available",
            "toolCallId": call,
            "toolName": name,
            "dynamic": True,
        }
        try:
            yield {
                **told,
                "input": json.loads(arguments) if isinstance(arguments, str) else arguments,
            }
        except ValueError:
            yield {**told, "input": arguments}  # The model's mistake: the result reports it.

    def _result(self, event: RunEvent) -> Chunk:
        told: Chunk = {"toolCallId": _call_id(event.iteration, event.call_id, event.run_id)}
        if event.data.get("isDenied"):
            return {**told, "type": "tool-output-denied"}
        return {**told, "type": "tool-output-available", "output": event.data["result"]}

    def _decision_of(self, event: RunEvent) -> Iterator[Chunk]:
        """Yield a decision, of any approver."""
        if event.data["answer"] is not None:
            return  # A question: its answer is the call's result.
        id = waiting_id(self._found, event.run_id, event.data["digest"])
        call = _call_id(event.iteration, event.call_id, event.run_id)
        if event.data["arguments"] is not None:
            yield from self._input(event, event.data["name"], event.data["arguments"])
        if self._version > 6 and call in self._calls:
            yield {"type": "tool-approval-request", "approvalId": id, "toolCallId": call}
            told = {
                "type": "tool-approval-response",
                "approvalId": id,
                "approved": event.data["approved"],
            }
            yield {**told, "reason": event.data["reason"]} if event.data["reason"] else told

    def _question_of(self, event: RunEvent) -> Iterator[Chunk]:
        """Yield a current or past question of the model."""
        if event.data["kind"] == "question":
            given = event.data["arguments"]
            asked = {"question": given.get("question"), "choices": event.data["choices"]}
            asked["allowOther"] = given.get("allow_other") is not False
            id = waiting_id(self._found, event.run_id, event.data["digest"])
            yield {"type": "data-question", "id": id, "data": asked}

    def _steering_of(self, event: RunEvent) -> Iterator[Chunk]:
        """Yield the steering messages that the run received."""
        for place, message in enumerate(added_messages(event)):
            if message.role == "user":
                told = [{"type": "text", "text": message.text}]
                if self._version > 6:
                    yield {"type": "steering-message", "id": f"{event.seq}.{place}", "parts": told}
                else:
                    yield {
                        "type": "data-steering",
                        "id": f"{event.seq}.{place}",
                        "data": {"text": message.text},
                    }

    def _requests_of(self, waits: WaitsForPerson) -> Iterator[Chunk]:
        """Yield the waiting calls, and end the stream: a page sends decisions after its end."""
        yield from self._close()
        for each in waits.pending:
            run = None if each.run_id == self._found.id else each.run_id
            id, call = (
                waiting_id(self._found, run, each.digest),
                _call_id(each.iteration, each.call_id, run),
            )
            if call not in self._calls:
                self._calls.add(call)
                told: Chunk = {
                    "type": "tool-input-available",
                    "toolCallId": call,
                    "toolName": each.name,
                }
                yield {**told, "input": each.arguments, "dynamic": True}
            if each.question:
                continue  # It was sent when the model asked.
            request: Chunk = {"type": "tool-approval-request", "approvalId": id, "toolCallId": call}
            if self._version > 6:
                more = {
                    "description": each.description,
                    "deadline": each.deadline,
                    "schema": each.parameters,
                }
                request["approvalDescriptor"] = {"digest": each.digest, **more}
                reason = with_approvers(each.reason or "", each)
                request |= {"reason": reason} if reason else {}
            yield request
        yield from self._end_step()
        yield {"type": "finish", "finishReason": "tool-calls"}

    def _end_of(self, event: RunEvent) -> Iterator[Chunk]:
        yield from self._end_step()
        if event.type == "failed":
            yield {"type": "error", "errorText": f"{event.data['kind']}: {event.data['message']}"}
        elif event.type == "cancelled":
            yield {
                "type": "message-metadata",
                "messageMetadata": {"perdure": {"status": "cancelled"}},
            }
            yield {"type": "abort"}
        else:
            reason = FINISHES[event.data.get("cutShort")].replace("_", "-")
            yield {"type": "finish", "finishReason": reason}


def _call_id(iteration: int, call_id: str | None, run_id: str | None) -> str:
    """Return the name of a call, unique in its message: models reuse ids, and child runs have their
    own calls.
    """
    own = f"{iteration}.{call_id}"
    return f"{run_id}.{own}" if run_id else own
