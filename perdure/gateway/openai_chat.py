"""OpenAI's Chat Completions: agents as models, for every program that has an address and a key to fill in."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from ..client import RunHandle, Session
from ..client.callers import AnswerText, held_back_characters
from ..client.sessions.session import instructions
from ..errors import RunError, RunNotFound
from ..events import TERMINAL_EVENTS, RunEvent
from ..messages import DELEGATED, TextPart, Usage
from ..options import RunOptions
from .gateway import EQUAL_SECONDS, FoundRun, Gateway, OfferedAgent, digest_of, output_text
from .ghosts import NEEDS_A_MODEL, empty_answer, task_of
from .identity import Identity
from .openai_wire import (
    BadParameter,
    ChatMessage,
    ChatRequest,
    error_body,
    error_response,
    message_of,
    refusal_response,
    request_in,
    status_of,
    usage_body,
)
from .operations import json_body, problem_of_request
from .problems import HttpProblem
from .sse import event_stream, frame, with_keepalives

ORIGIN_NAME = "gateway:openai"
"""`PerdureOrigin` of runs that are started here."""
SESSION_HEADERS = ("x-perdure-session", "x-openwebui-chat-id")
"""Name the session that a request is a turn of."""
MESSAGE_HEADERS = ("idempotency-key", "x-perdure-message")
"""Name a request: what comes again under one of them counts once."""
RETRY_HEADER = "x-stainless-retry-count"
"""By which OpenAI's own clients say that a request comes again; they send no key."""


class ChatCompletions:
    """`/v1/chat/completions` and `/v1/models`."""

    name = "openai-chat"

    def routes(self, gateway: Gateway) -> list[BaseRoute]:
        """Return what it answers to."""

        async def complete(request: Request) -> Response:
            try:
                identity = await gateway.identify(request)
                asked = request_in(await json_body(request))
                return await ChatCompletion(gateway, identity, request, asked, gateway.offer(asked.model)).answer()
            except Exception as error:
                return error_response(error, request)

        async def models(request: Request) -> Response:
            try:
                await gateway.identify(request)
                if name := request.path_params.get("name"):
                    return JSONResponse(_model(gateway.offer(name)))
            except Exception as error:
                return error_response(error, request)
            return JSONResponse({"object": "list", "data": [_model(each) for each in gateway.offers.values()]})

        return [
            Route("/v1/chat/completions", complete, methods=["POST"]),
            Route("/v1/models", models, methods=["GET"]),
            Route("/v1/models/{name:path}", models, methods=["GET"]),
        ]

    def refusal(self, problem: HttpProblem) -> Response:
        """Return the answer to a request that is refused before it is read."""
        return refusal_response(problem)


def _model(offer: OfferedAgent) -> dict[str, Any]:
    created = int(offer.path.stat().st_mtime) if offer.path.exists() else 0
    return {"id": offer.name, "object": "model", "created": created, "owned_by": "perdure"}


def _first(headers: Mapping[str, str], names: Sequence[str]) -> str:
    return next((value for name in names if (value := headers.get(name, "").strip())), "")


class ChatCompletion:
    """One request."""

    origin = ORIGIN_NAME
    options = RunOptions(stream=True)

    def __init__(
        self, gateway: Gateway, identity: Identity, request: Request, asked: ChatRequest, offer: OfferedAgent
    ) -> None:
        self._gateway = gateway
        self._identity = identity
        self._request = request
        self._asked = asked
        self._offer = offer
        self._shows_status = any(name.startswith("x-openwebui-") for name in request.headers)

    async def answer(self) -> Response:
        """Return the answer. Raises what a start raises."""
        users = [each for each in self._asked.messages if each.role in ("user", DELEGATED)]
        if not users:
            raise BadParameter("messages", "messages: expected one of the role `user`")
        task = task_of(self._request.headers, len(self._asked.messages), users[-1].text)
        if task and not (self._gateway.answers_tasks or task in NEEDS_A_MODEL):
            return self._answer_without_run(empty_answer(task))
        run = await (self._start_task() if task else self._start_turn(users))
        found = await self._gateway.run(self._identity, run.id)
        if self._asked.stream:
            return event_stream(self._stream(found), headers={"x-perdure-run": found.id})
        return await self._whole(found)

    def _answer_without_run(self, text: str) -> Response:
        id, usage = f"chatcmpl-{digest_of([time.time_ns(), text])[:24]}", Usage()
        if not self._asked.stream:
            return JSONResponse(self._body(id, text, usage, "stop"))

        async def frames() -> AsyncGenerator[bytes, None]:
            yield self._chunk(id, {"role": "assistant", "content": text})
            yield self._chunk(id, {}, finish="stop")
            yield frame("[DONE]")

        return event_stream(frames())

    async def _start_task(self) -> RunHandle:
        """Start one call of the agent's model, without tools and without its instructions."""
        plain = self._offer.agent.model_copy(update={"tools": [], "inputs": [], "outputs": None})
        offer = OfferedAgent(self._offer.name, plain, self._offer.path)
        run, _ = await self._gateway.start(
            self._identity,
            offer,
            messages=[message_of(each) for each in self._asked.messages],
            options=RunOptions(stream=self._asked.stream, max_iterations=1),
            origin=f"{ORIGIN_NAME}:task",
        )
        return run

    async def _start_turn(self, users: Sequence[ChatMessage]) -> RunHandle:
        headers = self._request.headers
        key = _first(headers, MESSAGE_HEADERS)
        session = self._session_id()
        if session and (run := await self._say(session, users, key)):
            return run
        messages = [*instructions(self._offer.agent, {}), *map(message_of, self._asked.messages)]
        if key:
            run, _ = await self._gateway.start(
                self._identity, self._offer, messages=messages, key=key, options=self.options, origin=self.origin
            )
            return run
        is_retry = headers.get(RETRY_HEADER, "0") not in ("", "0")
        return await self._gateway.start_equal(
            self._identity,
            self._offer,
            self._asked.model_dump(mode="json"),
            joins=lambda last: is_retry and _is_recent(last),
            messages=messages,
            options=self.options,
            origin=self.origin,
        )

    def _session_id(self) -> str:
        """Return the session that the request names; "" for none."""
        return _first(self._request.headers, SESSION_HEADERS)

    async def _say(self, id: str, users: Sequence[ChatMessage], key: str) -> RunHandle | None:
        """Send the last user message to the session.

        None where what was said before is not what the session knows: it was edited, or another answer is wanted.
        """
        session = await self._gateway.session(self._identity, id, self._offer)
        said = [each.text for each in users]
        known = await _said_in(session)
        message = key or digest_of([id, said])
        if known not in (said[:-1], said):
            return None
        if known == said and not key:
            return None  # The same once more: another answer is wanted, or a retry without a key.
        last = message_of(users[-1])
        if any(not isinstance(part, TextPart) for part in last.parts):
            return None  # Sessions take text.
        return await session.send(last.text, while_busy="steer", message_id=message, by=self._identity.name)

    async def _whole(self, found: FoundRun) -> Response:
        try:
            result = await found.handle.result()
        except RunError as error:
            raise HttpProblem(422, error.kind, str(error), headers={"x-perdure-run": found.id}) from error
        text = output_text(result.output)
        finish = "length" if result.is_incomplete else "stop"
        body = self._body(_completion_id(found), text, result.usage, finish)
        return JSONResponse(body, headers={"x-perdure-run": found.id})

    async def _stream(self, found: FoundRun) -> AsyncGenerator[bytes, None]:
        async with aclosing(with_keepalives(self._frames(found))) as frames:
            async for each in frames:
                yield each

    async def _frames(self, found: FoundRun) -> AsyncGenerator[bytes, None]:
        """Yield the chunks of the answer, and the error of a run that fails; then the end."""
        id = _completion_id(found)
        yield self._chunk(id, {"role": "assistant", "content": ""})
        try:
            async with aclosing(self._gateway.stream(found)) as events:
                async for each in self._chunks(id, events):
                    yield each
        except Exception as error:
            yield frame(json.dumps(error_body(problem_of_request(error, self._request))))
        yield frame("[DONE]")

    async def _chunks(self, id: str, events: AsyncGenerator[RunEvent, None]) -> AsyncGenerator[bytes, None]:
        usage = Usage()
        text = AnswerText(held_back_characters(self._offer.agent, self._gateway.stream_after, is_checked=False))
        async for event in events:
            if event.type == "llm_complete":
                usage += Usage.model_validate(event.data["usage"])
            if beside := self._frame_beside(id, event):
                yield beside
            if more := text.more(event):
                yield self._chunk(id, {"content": more})
            if event.type in TERMINAL_EVENTS:
                yield self._end(id, event, usage)
                return

    def _frame_beside(self, id: str, event: RunEvent) -> bytes:
        """Return what is shown of an event beside the answer; b"" for nothing."""
        status = status_of(event) if self._shows_status else None
        return frame(json.dumps({"event": {"type": "status", "data": status}})) if status else b""

    def _end(self, id: str, event: RunEvent, usage: Usage) -> bytes:
        if event.type != "done":
            kind = event.data.get("kind", event.type)
            message = event.data.get("message", "The run was cancelled")
            return frame(json.dumps(error_body(HttpProblem(422, kind, message))))
        end = self._chunk(id, {}, finish="stop")
        return end + (self._chunk(id, None, usage=usage) if self._asked.with_usage else b"")

    def _chunk(
        self, id: str, delta: dict[str, Any] | None, *, finish: str | None = None, usage: Usage | None = None
    ) -> bytes:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
        chunk: dict[str, Any] = {
            "id": id,
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": self._asked.model,
            "choices": choices,
        }
        if self._asked.with_usage:
            chunk["usage"] = None if usage is None else usage_body(usage)
        return frame(json.dumps(chunk, ensure_ascii=False))

    def _body(self, id: str, text: str, usage: Usage, finish: str) -> dict[str, Any]:
        return {
            "id": id,
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self._asked.model,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text, "refusal": None},
                    "logprobs": None,
                    "finish_reason": finish,
                }
            ],
            "usage": usage_body(usage),
        }


def _is_recent(last: FoundRun) -> bool:
    return datetime.now(UTC) - last.described.start_time < timedelta(seconds=EQUAL_SECONDS)


async def _said_in(session: Session) -> list[str]:
    """Return what users have said in a session; [] for one that has not begun."""
    try:
        messages = await session.messages()
    except RunNotFound:
        return []
    return [each.text for each in messages if each.role == "user"]


def _completion_id(found: FoundRun) -> str:
    """Return an id that any gateway makes of this run."""
    return f"chatcmpl-{digest_of([found.id, found.first_run_id])[:24]}"
