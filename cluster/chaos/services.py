"""A model, an HTTP API, and a receiver of webhooks, in one process; each notes what it was asked.

The model fails now and then: an error, a rate limit, a stream that breaks off, a long silence.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from .shapes import position, reply

FAILURES = {"error": 0.02, "rate": 0.01, "broken": 0.02, "silent": 0.01}
"""What a model call ends with instead of a reply, and how often."""
SILENT_SECONDS = 12.0


class Services:
    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._random = folder, random.Random(seed)
        self._numbers = iter(range(1, 1 << 40))

    def note(self, file: str, **entry: Any) -> None:
        with (self._folder / f"{file}.jsonl").open("a") as log:
            log.write(json.dumps({"at": time.time(), **entry}) + "\n")

    def _failure(self) -> str:
        drawn = self._random.random()
        for name, share in FAILURES.items():
            if drawn < share:
                return name
            drawn -= share
        return ""

    async def model(self, request: Request) -> Response:
        try:
            asked = await request.json()
        except ClientDisconnect:
            return Response(status_code=499)
        messages = asked["messages"]
        run, shape, step = position(messages)
        number = next(self._numbers)
        known = {"number": number, "run": run, "shape": shape, "step": step}
        self.note("model", event="asked", messages=messages, **known)
        failure = self._failure()
        if failure:
            self.note("failures", kind=failure, **known)
        if failure == "error":
            return JSONResponse({"error": {"message": "overloaded"}}, status_code=500)
        if failure == "rate":
            problem = {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}
            return JSONResponse(problem, status_code=429, headers={"retry-after": "1"})
        if failure == "silent":
            await asyncio.sleep(SILENT_SECONDS)
        await asyncio.sleep(self._random.uniform(0.2, 1.5))
        made = reply(run, shape, step)
        if asked.get("stream"):
            pieces = self._pieces(made, known, is_broken=failure == "broken")
            return StreamingResponse(pieces, media_type="text/event-stream")
        if failure == "broken":
            return Response(b'{"id": "x", "choi', media_type="application/json")
        message = {"role": "assistant", "content": made["content"]}
        if "calls" in made:
            message["tool_calls"] = [_call(*call) for call in made["calls"]]
        self.note("model", event="answered", **known)
        choice = {"index": 0, "message": message, "finish_reason": _reason(made)}
        return JSONResponse(_frame("chat.completion", choice) | {"usage": USAGE})

    async def _pieces(
        self, made: dict[str, Any], known: dict[str, Any], *, is_broken: bool
    ) -> AsyncIterator[bytes]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        for place, call in enumerate(made.get("calls", ())):
            deltas.append({"tool_calls": [{"index": place, **_call(*call)}]})
        if made["content"]:
            deltas += [{"content": word + " "} for word in made["content"].split()[:-1]]
            deltas.append({"content": made["content"].split()[-1]})
        for delta in deltas:
            yield _event({"index": 0, "delta": delta, "finish_reason": None})
            await asyncio.sleep(0.02)
            if is_broken:
                return
        yield _event({"index": 0, "delta": {}, "finish_reason": _reason(made)})
        yield b"data: [DONE]\n\n"
        self.note("model", event="answered", **known)

    async def specification(self, request: Request) -> Response:
        text = {"name": "text", "in": "query", "required": True, "schema": {"type": "string"}}
        key = {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}
        answer = {"200": {"description": "noted"}}
        post = {"operationId": "add_entry", "parameters": [text], "responses": answer}
        put = {"operationId": "put_entry", "parameters": [text, key], "responses": answer}
        return JSONResponse(
            {
                "openapi": "3.1.0",
                "info": {"title": "entries", "version": "1"},
                "servers": [{"url": str(request.base_url).rstrip("/")}],
                "paths": {"/entries": {"post": post, "put": put}},
            }
        )

    async def entries(self, request: Request) -> Response:
        name = {"POST": "add_entry", "PUT": "put_entry"}[request.method]
        key = request.headers.get("idempotency-key", "")
        text = request.query_params["text"]
        self.note("diary", event="start", tool=name, text=text, key=key)
        await asyncio.sleep(self._random.uniform(0.0, 1.0))
        self.note("diary", event="end", tool=name, text=text, key=key)
        return Response("noted")

    async def hook(self, request: Request) -> Response:
        body = await request.json()
        id = request.headers["webhook-id"]
        self.note("hooks", id=id, type=body["type"], run=body["data"]["run"])
        return Response(status_code=503 if self._random.random() < 0.15 else 204)

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self.model, methods=["POST"]),
                Route("/openapi.json", self.specification),
                Route("/entries", self.entries, methods=["POST", "PUT"]),
                Route("/hook", self.hook, methods=["POST"]),
            ]
        )


USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def _reason(made: dict[str, Any]) -> str:
    return "tool_calls" if "calls" in made else "stop"


def _call(id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": id, "type": "function", "function": function}


def _frame(kind: str, choice: dict[str, Any]) -> dict[str, Any]:
    return {"id": "chaos", "object": kind, "created": 0, "model": "chaos", "choices": [choice]}


def _event(choice: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(_frame("chat.completion.chunk", choice)).encode() + b"\n\n"


def main(folder: str, port: str, seed: str) -> None:
    app = Services(Path(folder), int(seed)).app()
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="error")


if __name__ == "__main__":
    main(*sys.argv[1:])
