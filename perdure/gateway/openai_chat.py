"""OpenAI's Chat Completions: agents as models, for any program with a configurable address and
key.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from ..client import RunHandle
from ..client.callers import AnswerText, held_back_characters
from ..errors import RunError
from ..events import TERMINAL_EVENTS, RunEvent
from ..json_types import JsonObject
from ..messages import DELEGATED, Usage
from ..options import RunOptions
from .gateway import FoundRun, Gateway, OfferedAgent, digest_of
from .ghosts import NEEDS_A_MODEL, empty_answer, task_of
from .held import unless_held, until_held
from .identity import Identity
from .openai_start import ORIGIN_NAME, AgentRequest
from .openai_wire import (
    ChatMessage,
    CompletionRequest,
    error_body,
    message_of,
    refusal_response,
    request_in,
    usage_body,
)
from .operations import json_body, known_route, problem_of_request
from .problems import BadParameter, HttpProblem, run_headers
from .sse import event_stream, frame, with_keepalives
from .words import FINISHES, output_text


class ChatCompletions:
    """`/v1/chat/completions` and `/v1/models`."""

    name = "openai-chat"

    def routes(self, gateway: Gateway) -> list[BaseRoute]:
        """Return the routes of the dialect."""

        async def complete(request: Request, identity: Identity) -> Response:
            asked = request_in(await json_body(request))
            return await ChatCompletion(
                gateway, identity, request, asked, gateway.offer(asked.model)
            ).answer()

        async def models(request: Request, identity: Identity) -> Response:
            if name := request.path_params.get("name"):
                return JSONResponse(_model(gateway.offer(name)))
            return JSONResponse(
                {"object": "list", "data": [_model(each) for each in gateway.offers.values()]}
            )

        return [
            known_route("/v1/chat/completions", "POST", gateway, complete, refusal_response),
            known_route("/v1/models", "GET", gateway, models, refusal_response),
            known_route("/v1/models/{name:path}", "GET", gateway, models, refusal_response),
        ]

    def refusal(self, problem: HttpProblem) -> Response:
        """Return the response to a request that is refused unread."""
        return refusal_response(problem)


def _model(offer: OfferedAgent) -> JsonObject:
    created = int(offer.path.stat().st_mtime) if offer.path.exists() else 0
    return {"id": offer.name, "object": "model", "created": created, "owned_by": "perdure"}


class ChatCompletion:
    """One request."""

    origin = ORIGIN_NAME
    options = RunOptions(stream=True)

    def __init__(
        self,
        gateway: Gateway,
        identity: Identity,
        request: Request,
        body: CompletionRequest,
        offer: OfferedAgent,
    ) -> None:
        self._gateway = gateway
        self._identity = identity
        self._request = request
        self._body = body
        self._offer = offer
        self._agent_request = AgentRequest(gateway, identity, offer, request)

    async def answer(self) -> Response:
        """Return the answer. Raises as a start does."""
        users = [each for each in self._body.messages if each.role in ("user", DELEGATED)]
        if not users:
            raise BadParameter("messages", "messages: expected one of the role `user`")
        task = task_of(self._request.headers, len(self._body.messages), users[-1].text)
        if task and task not in NEEDS_A_MODEL:
            return self._answer_without_run(empty_answer(task))
        if task:
            messages = [message_of(each) for each in self._body.messages]
            run = await self._agent_request.start_task(messages, stream=self._body.stream)
        else:
            run = await self._start_turn(users)
        found = await self._gateway.run(self._identity, run.id)
        if self._body.stream:
            return self._agent_request.stream(
                event_stream(self._stream(found), headers=run_headers(found.id))
            )
        return await self._agent_request.whole(self._whole(found))

    def _answer_without_run(self, text: str) -> Response:
        id, usage = f"chatcmpl-{digest_of([time.time_ns(), text])[:24]}", Usage()
        if not self._body.stream:
            return JSONResponse(self._completion(id, text, usage, "stop"))

        async def frames() -> AsyncGenerator[bytes, None]:
            yield self._chunk(id, {"role": "assistant", "content": text})
            yield self._chunk(id, {}, finish="stop")
            yield frame("[DONE]")

        return event_stream(frames())

    async def _start_turn(self, users: Sequence[ChatMessage]) -> RunHandle:
        agent_request = self._agent_request
        session = self._session_id()
        if session and (run := await self._send_to_session(session, users, agent_request.key)):
            return run
        messages = [*agent_request.instructions, *map(message_of, self._body.messages)]
        return await agent_request.start_run(
            messages, self._body.model_dump(mode="json"), self.options, self.origin
        )

    def _session_id(self) -> str:
        """Return the id of the request's session; "" for none."""
        return self._agent_request.session

    async def _send_to_session(
        self, id: str, users: Sequence[ChatMessage], key: str
    ) -> RunHandle | None:
        return await self._agent_request.say_in_session(id, [message_of(each) for each in users])

    async def _whole(self, found: FoundRun) -> Response:
        try:
            result = await unless_held(self._gateway, found.id, found.handle.result())
        except RunError as error:
            raise HttpProblem(422, error.kind, str(error), headers=run_headers(found.id)) from error
        text = output_text(result.output)
        body = self._completion(
            _completion_id(found), text, result.usage, FINISHES[result.cut_short]
        )
        return JSONResponse(body, headers=run_headers(found.id))

    async def _stream(self, found: FoundRun) -> AsyncGenerator[bytes, None]:
        async with aclosing(with_keepalives(self._frames(found))) as frames:
            async for each in frames:
                yield each

    async def _frames(self, found: FoundRun) -> AsyncGenerator[bytes, None]:
        """Yield the chunks of the answer, and the error of a run that fails; then the end."""
        id = _completion_id(found)
        yield self._chunk(id, {"role": "assistant", "content": ""})
        try:
            async with aclosing(
                until_held(self._gateway, found.id, self._gateway.stream(found))
            ) as events:
                async for each in self._chunks(id, events):
                    yield each
        except Exception as error:
            yield frame(json.dumps(error_body(problem_of_request(error, self._request))))
        yield frame("[DONE]")

    async def _chunks(
        self, id: str, events: AsyncGenerator[RunEvent, None]
    ) -> AsyncGenerator[bytes, None]:
        usage = Usage()
        text = AnswerText(
            held_back_characters(self._offer.agent, self._gateway.stream_after, is_checked=False)
        )
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
        """Return the frame of an event outside the answer; b"" for none."""
        return b""

    def _end(self, id: str, event: RunEvent, usage: Usage) -> bytes:
        if event.type != "done":
            kind = event.data.get("kind", event.type)
            message = event.data.get("message", "The run was cancelled")
            return frame(json.dumps(error_body(HttpProblem(422, kind, message))))
        end = self._chunk(id, {}, finish=FINISHES[event.data.get("cutShort")])
        return end + (self._chunk(id, None, usage=usage) if self._body.with_usage else b"")

    def _chunk(
        self,
        id: str,
        delta: JsonObject | None,
        *,
        finish: str | None = None,
        usage: Usage | None = None,
    ) -> bytes:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
        chunk: JsonObject = {
            "id": id,
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": self._body.model,
            "choices": choices,
        }
        if self._body.with_usage:
            chunk["usage"] = None if usage is None else usage_body(usage)
        return frame(json.dumps(chunk, ensure_ascii=False))

    def _completion(self, id: str, text: str, usage: Usage, finish: str) -> JsonObject:
        return {
            "id": id,
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self._body.model,
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


def _completion_id(found: FoundRun) -> str:
    """Return the id that every gateway derives from this run."""
    return f"chatcmpl-{digest_of([found.id, found.first_run_id])[:24]}"
