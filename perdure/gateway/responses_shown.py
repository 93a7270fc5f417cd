"""Reads, cancels and deletes OpenAI responses: each read derives the response from its run's
events.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from starlette.requests import Request
from starlette.responses import StreamingResponse

from ..client.callers import held_back_characters
from ..client.deletion import delete_run
from ..errors import RunError
from ..events import RunEvent
from ..json_types import JsonObject
from ..protocol.outcome import Held
from ..protocol.search_attributes import AGENT, shown_of
from .gateway import MEMO, FoundRun, Gateway, session_of
from .held import KIND, WHILE_HELD, held_text, until_held
from .identity import Identity
from .operations import problem_of_request
from .problems import BadParameter, HttpProblem, run_headers
from .responses_events import ResponseEvents
from .responses_text import Frame
from .responses_wire import ResponseId, response_body
from .sse import event_stream, frame, with_keepalives

ABOUT = "response"
"""The key, in the gateway's part of a run's memo, of the shown fields of the request."""
CANCEL_SECONDS = 5.0
"""Seconds that a request waits for the end of a run after cancelling it."""


class ShownResponse:
    """A response, for its readers."""

    def __init__(
        self, gateway: Gateway, found: FoundRun, id: ResponseId, about: JsonObject, started: float
    ) -> None:
        self.id = id
        self._gateway = gateway
        self._found = found
        self._about = about
        self._started = started

    @classmethod
    async def find(cls, gateway: Gateway, identity: Identity, text: str) -> ShownResponse:
        """Return the response of that id. Raises `HttpProblem`."""
        id = ResponseId.read(text)
        return await cls.of_run(gateway, await gateway.run(identity, id.run), id)

    @classmethod
    async def of_run(cls, gateway: Gateway, found: FoundRun, id: ResponseId) -> ShownResponse:
        """Return the response for a part of a run."""
        about: JsonObject = dict((await found.described.memo_value(MEMO, {})).get(ABOUT) or {})
        if "model" not in about:
            about["model"] = found.described.typed_search_attributes.get(AGENT) or "unknown"
        if session := session_of(found.id):
            about["conversation"] = {"id": session}
        return cls(gateway, found, id, about, (await shown_of(found.described)).started.timestamp())

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of each answer about the response."""
        return run_headers(self._found.id)

    def _events(self, after: int | None = None) -> ResponseEvents:
        model = self._about["model"]
        body = response_body(self.id, model, self._started, self._about)
        offer = self._gateway.offers.get(model)
        held_back = None
        if offer is not None:
            held_back = held_back_characters(
                offer.agent, self._gateway.stream_after, is_checked=False
            )
        return ResponseEvents(self.id, body, held_back=held_back, after=after)

    def queued(self) -> JsonObject:
        """Return the response before its first event."""
        return self._events().body

    async def body(self) -> JsonObject:
        """Return the current response. Raises `HttpProblem` for a part that the run does not
        have.
        """
        made = self._events()
        for event in await self._found.handle.events():
            made.take(event)
            if event.type not in WHILE_HELD and not made.is_over:
                made.body["error"] = self._why_held(event) if event.type == KIND else None
            if event.type == "llm_start" and not made.is_over:
                made.body["status"] = "in_progress"
        if made.requests < self.id.part:
            raise HttpProblem(404, "not_found", f"There is no response {str(self.id)!r}")
        return made.body

    def _why_held(self, event: RunEvent) -> JsonObject:
        held = Held(
            reason=event.data["reason"],
            kind=event.data["kind"],
            why=event.data["message"],
            since=event.time,
        )
        return {"code": KIND, "message": held_text(self._found.id, held)}

    async def whole(self) -> JsonObject:
        """Wait for the end of the response, and return it. Raises `HttpProblem` if the run has
        failed.
        """
        made = self._events()
        async for _ in self._frames_of(made):
            pass
        if made.body["status"] not in ("completed", "incomplete"):
            error = made.body["error"] or {"code": "cancelled", "message": "The run was cancelled"}
            raise HttpProblem(422, error["code"], error["message"], headers=self.headers)
        return made.body

    async def _frames_of(self, made: ResponseEvents) -> AsyncGenerator[Frame, None]:
        """Yield the response's events, made from the run's, until it is over. Raises if the run is
        held.
        """
        async with aclosing(
            until_held(self._gateway, self._found.id, self._gateway.stream(self._found))
        ) as events:
            async for event in events:
                for each in made.take(event):
                    yield each
                if made.is_over:
                    return

    def stream(self, request: Request, after: int | None = None) -> StreamingResponse:
        """Return the HTTP response that streams the events."""

        return event_stream(with_keepalives(self._frames(request, after)), headers=self.headers)

    async def _frames(self, request: Request, after: int | None) -> AsyncGenerator[bytes, None]:
        made = self._events(after)
        for each in made.begin():
            yield sent(each)
        try:
            async with aclosing(self._frames_of(made)) as frames:
                async for each in frames:
                    yield sent(each)
        except Exception as error:
            yield sent(made.failure(problem_of_request(error, request)))

    async def cancel(self) -> JsonObject:
        """Cancel the run, and return the response. Raises `HttpProblem` for a run that has ended
        otherwise.
        """
        if not self._found.has_ended:
            await self._found.handle.cancel("the client has cancelled the response")
            with suppress(TimeoutError, RunError):
                async with asyncio.timeout(CANCEL_SECONDS):
                    await self._found.handle.result()
            return await self.body()
        body = await self.body()
        if body["status"] in ("completed", "incomplete", "failed"):
            raise BadParameter(
                "response_id", f"The response {str(self.id)!r} has ended: it is {body['status']}"
            )
        return body

    async def delete(self) -> None:
        """Have the server delete the run and its child runs. Raises `HttpProblem` before the run
        has ended.
        """
        if not self._found.has_ended:
            raise BadParameter(
                "response_id", f"The response {str(self.id)!r} is open: cancel it first"
            )
        if session := session_of(self._found.id):
            raise BadParameter(
                "response_id",
                f"The response {str(self.id)!r} is a turn of the conversation {session!r}: delete "
                "that",
            )
        await delete_run(self._gateway.client, self._found.id)


def sent(each: Frame) -> bytes:
    """Return an event as bytes."""
    return frame(json.dumps(each, ensure_ascii=False), event=each["type"])
