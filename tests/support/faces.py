"""The faces of a gateway: each takes one message for a session and streams what becomes of it, in
its own form.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import httpx2

from perdure.json_types import JsonObject, JsonView

Frame = tuple[str, JsonObject]


@dataclass(frozen=True)
class Face:
    """One address of the gateway for the agent `tested`."""

    path: str
    body: Callable[[str, str, bool], JsonObject]
    """Of a request, by the session, the text, and whether the answer is a stream."""
    text: Callable[[str, Any], str]
    """What of the answer an event says, by its name and its data; "" for nothing."""
    session_header: str = ""
    answers_whole: bool = True
    """Whether it also has answers that are no streams."""

    def asked(self, session: str, text: str = "Hi", *, stream: bool = True) -> JsonObject:
        """The arguments of a request."""
        headers = {self.session_header: session} if self.session_header else {}
        url = self.path.replace("SESSION", session)
        return {
            "url": url,
            "json": self.body(session, text, stream),
            "headers": headers,
            "timeout": 60,
        }

    async def pieces(self, http: httpx2.AsyncClient, session: str) -> AsyncIterator[str]:
        """Ask, and yield what is said as it comes."""
        async with (
            http.stream("POST", **self.asked(session)) as answer,
            aclosing(_frames(answer)) as frames,
        ):
            async for event, data in frames:
                if said := self.text(event, data):
                    yield said


async def _frames(answer: httpx2.Response) -> AsyncGenerator[Frame, None]:
    event = ""
    async for line in answer.aiter_lines():
        name, _, value = line.partition(": ")
        if name == "event":
            event = value
        elif name == "data" and value.startswith("{"):
            yield event, json.loads(value)
        elif not line:
            event = ""


def _chat(session: str, text: str, stream: bool) -> JsonObject:
    return {"model": "tested", "messages": [{"role": "user", "content": text}], "stream": stream}


def _response(session: str, text: str, stream: bool) -> JsonObject:
    return {"model": "tested", "input": text, "stream": stream}


def _octopus(session: str, text: str, stream: bool) -> JsonObject:
    return {"message": text}


def _page(session: str, text: str, stream: bool) -> JsonObject:
    return {
        "id": session,
        "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": text}]}],
    }


def _thread(session: str, text: str, stream: bool) -> JsonObject:
    said = {"id": "m1", "role": "user", "content": text}
    more: JsonObject = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
    return {"threadId": session, "runId": "r1", "messages": [said], **more}


def _a2a(session: str, text: str, stream: bool) -> JsonObject:
    said = {
        "messageId": "m1",
        "contextId": session,
        "role": "user",
        "parts": [{"kind": "text", "text": text}],
    }
    method = "message/stream" if stream else "message/send"
    return {
        "jsonrpc": "2.0",
        "id": "1",
        "method": method,
        "params": {"message": {**said, "kind": "message"}},
    }


def _chat_text(event: str, data: Any) -> str:
    return "".join(
        each["delta"].get("content") or "" for each in data.get("choices", ()) if each["delta"]
    )


def _a2a_text(event: str, data: Any) -> str:
    parts: list[JsonView] = data.get("result", {}).get("artifact", {}).get("parts", [])
    return "".join(str(each.get("text", "")) for each in parts)


def _of_type(type: str, field: str) -> Callable[[str, Any], str]:
    return lambda event, data: str(data[field]) if type in (event, data.get("type")) else ""


FACES: dict[str, Face] = {
    "chat": Face("/v1/chat/completions", _chat, _chat_text, "x-perdure-session"),
    "responses": Face(
        "/v1/responses",
        _response,
        _of_type("response.output_text.delta", "delta"),
        "x-perdure-session",
    ),
    "kaos": Face("/kaos/tested/v1/chat/completions", _chat, _chat_text, "x-session-id"),
    "octopus": Face(
        "/api/chat/SESSION/send", _octopus, _of_type("token", "text"), answers_whole=False
    ),
    "ai-sdk": Face("/ai/tested", _page, _of_type("text-delta", "delta"), answers_whole=False),
    "ag-ui": Face(
        "/ag-ui/tested", _thread, _of_type("TEXT_MESSAGE_CONTENT", "delta"), answers_whole=False
    ),
    "a2a": Face("/a2a/tested", _a2a, _a2a_text),
}
