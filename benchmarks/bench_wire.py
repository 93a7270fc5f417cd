"""How much a model call costs beside the HTTP request itself, per provider: `python -m
benchmarks.bench_wire`.

A conversation of 400 messages of 1 KB goes through the real SDK to a loopback server in a process
of its own; the same bytes go there through a bare HTTP client. Printed are medians over interleaved
rounds:

- bare: the request alone, its bytes ready
- call: `Provider.call`, for a conversation whose beginning was sent before, as it is in every
  iteration but the first
- first: `Provider.call`, for a conversation that was never sent before
- step: `Provider.to_request`, `Provider.call` and `Provider.reply`

The exit code is 1 when a call takes more than twice as long as the bare request.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import httpx2

from perdure.agents import Agent
from perdure.messages import Message, ToolCall, ToolResult
from perdure.providers import close_clients, provider_for
from perdure.providers.base import ModelCallOptions
from perdure.providers.memo import Unchanging

MESSAGES = 400
MESSAGE_CHARS = 1024
ROUNDS = 60
WARM_UP = 10
LIMIT = 2.0
"""A call may take at most this many times as long as the bare request."""

_USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
WIRES = {
    ("openai", "chat"): ("/v1", "/chat/completions"),
    ("openai", "responses"): ("/v1", "/responses"),
    ("anthropic", "chat"): ("", "/v1/messages"),
}
ANSWERS = {
    "/chat/completions": {
        "id": "c",
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    },
    "/responses": {
        "id": "r",
        "model": "m",
        "status": "completed",
        "output": [
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Hi"}],
            }
        ],
        "usage": _USAGE,
    },
    "/messages": {
        "id": "a",
        "model": "m",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "usage": _USAGE,
    },
}


async def main() -> int:
    server = subprocess.Popen(
        [sys.executable, __file__, "serve"], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        port = int(server.stdout.readline())
        ratios = [await measure(key, api_type, port) for key, api_type in WIRES]
    finally:
        server.kill()
        server.wait()
    return 0 if max(ratios) <= LIMIT else 1


async def measure(key: str, api_type: str, port: int) -> float:
    """Prints one line, and gives the ratio of a call to a bare request."""
    base, path = WIRES[key, api_type]
    connection = {"kind": "anonymous", "endpoint": f"http://127.0.0.1:{port}{base}"}
    agent = Agent.model_validate(
        {"model": {"id": "m", "provider": key, "apiType": api_type, "connection": connection}}
    )
    provider = provider_for(agent)
    messages = Unchanging(conversation())
    request = provider.to_request(agent, messages)
    body = json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode()
    url = f"http://127.0.0.1:{port}{base}{path}"

    async with httpx2.AsyncClient() as client:

        async def bare() -> None:
            response = await client.post(
                url, content=body, headers={"content-type": "application/json"}
            )
            response.json()

        async def call() -> None:
            await provider.call(agent, request, ModelCallOptions(30))

        async def first() -> None:
            await provider.call(agent, next(unknown), ModelCallOptions(30))

        async def step() -> None:
            fresh = provider.to_request(agent, messages)
            provider.reply(agent, await provider.call(agent, fresh, ModelCallOptions(30)))

        others = [Unchanging(conversation(f"run {n}")) for n in range(WARM_UP + ROUNDS)]
        unknown = iter([provider.to_request(agent, other) for other in others])
        bare_ms, call_ms, first_ms, step_ms = await interleaved(bare, call, first, step)
    await close_clients()
    name = f"{key} {api_type}"
    print(
        f"{name:18} {len(body) / 1024:5.0f} KB   bare {bare_ms:5.2f} ms   "
        f"call {call_ms:5.2f} ms ({call_ms / bare_ms:.2f}x)   "
        f"first {first_ms:5.2f} ms   step {step_ms:5.2f} ms"
    )
    return call_ms / bare_ms


async def interleaved(*variants: Callable[[], Awaitable[None]]) -> list[float]:
    """The median milliseconds of each variant; interleaved, so that a noisy moment hits all of
    them.
    """
    times: list[list[float]] = [[] for _ in variants]
    for round_ in range(WARM_UP + ROUNDS):
        for variant, measured in zip(variants, times, strict=True):
            started = time.perf_counter()
            await variant()
            if round_ >= WARM_UP:
                measured.append((time.perf_counter() - started) * 1000)
    return [statistics.median(measured) for measured in times]


def conversation(question: str = "?") -> list[Message]:
    """A system and a user message, then rounds of one tool call and its result."""
    messages = [
        Message.system("x" * MESSAGE_CHARS),
        Message.user(question.ljust(MESSAGE_CHARS, ".")),
    ]
    while len(messages) < MESSAGES:
        call = ToolCall(
            id=f"call_{len(messages)}",
            name="look",
            arguments=json.dumps({"at": "y" * MESSAGE_CHARS}),
        )
        messages += [
            Message.assistant(tool_calls=[call]),
            Message.tool(call, ToolResult.of_text("z" * MESSAGE_CHARS)),
        ]
    return messages


async def serve() -> None:
    """Reads each request to its end and answers at once; keeps connections open."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            path = head.split(b" ", 2)[1].decode()
            body = json.dumps(
                next(text for end, text in ANSWERS.items() if path.endswith(end))
            ).encode()
            head_lines = (
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: "
                f"{len(body)}\r\n\r\n"
            )
            writer.write(head_lines.encode() + body)
            await writer.drain()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=2**20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve())
    else:
        sys.exit(asyncio.run(main()))
