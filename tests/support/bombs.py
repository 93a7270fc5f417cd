"""Asks a provider whose small answers unpack to gigabytes; prints as JSON what came of each, and
the memory it took.

`python -m tests.support.bombs BYTES [NAME…]`. The process stands for a worker: its peak is what a
worker would have had.
"""

from __future__ import annotations

import asyncio
import json
import resource
import struct
import sys
import zlib
from collections.abc import Callable

from perdure.activities.heartbeat import Heartbeat
from perdure.activities.model import ask_model
from perdure.errors import ModelError
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.options import RunOptions
from perdure.providers import close_clients

from .recorded_server import Recorded, recorded_server
from .wild_provider import answer, asking

MIB = 1024 * 1024


def deflated(head: bytes, filling: bytes, size: int) -> bytes:
    """A raw deflate stream of the head and so much filling; each mebibyte is packed once, and
    repeated.
    """
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    begin = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress((filling * (MIB // len(filling) + 1))[:MIB]) + packer.flush(
        zlib.Z_FULL_FLUSH
    )
    return begin + block * (size // MIB) + packer.flush()


def gzipped(head: bytes, filling: bytes, size: int) -> bytes:
    return (
        struct.pack("<BBBBLBB", 0x1F, 0x8B, 8, 0, 0, 2, 255)
        + deflated(head, filling, size)
        + bytes(8)
    )


def bombs(size: int) -> dict[str, Callable[[], Recorded]]:
    """Small answers of all kinds that unpack to `size` bytes."""
    head = json.dumps(answer("chat", "")).encode().partition(b'"content": "')
    text = head[0] + head[1]
    gzip, deflate = {"content-encoding": "gzip"}, {"content-encoding": "deflate"}
    twice = {"content-encoding": "deflate, deflate"}
    comments = b": still thinking, please be patient\n" * 20
    event = b'data: {"choices": [{"delta": {"content": "' + b"a" * 1000 + b'"}}]}\n\n'
    events = (event * (MIB // len(event))).ljust(MIB - 2, b":") + b"\n\n"
    tiny = b'{"choices": [{"message": {"content": "a"}}], "more": [' + b"[]," * (5 * MIB) + b"[]]}"
    item = {"type": "response.output_item.done", "item": {"type": "x"}}
    item_event = b"data: " + json.dumps(item).encode() + b"\n\n"
    items = (item_event * (MIB // len(item_event))).ljust(MIB - 2, b":") + b"\n\n"
    return {
        "objects": lambda: Recorded(zlib.compress(tiny, 1), headers=deflate),
        "event": lambda: Recorded.of_stream(
            zlib.compress(b"data: " + tiny + b"\n\n", 1), headers=deflate
        ),
        "items": lambda: Recorded.of_stream(gzipped(b"", items, 256 * MIB), headers=gzip),
        "gzip": lambda: Recorded(gzipped(text, b"a", size), headers=gzip),
        "deflate": lambda: Recorded(deflated(text, b"a", size), headers=deflate),
        "twice": lambda: Recorded(zlib.compress(deflated(text, b"a", size)), headers=twice),
        "text": lambda: Recorded.of_stream(gzipped(b"", events, size), headers=gzip),
        "line": lambda: Recorded.of_stream(gzipped(b"data: ", b"a", size), headers=gzip),
        "comments": lambda: Recorded.of_stream(gzipped(b"", comments, size), headers=gzip),
        "error": lambda: Recorded(
            gzipped(b'{"error": {"message": "', b"a", size), status=400, headers=gzip
        ),
    }


async def main(size: int, *names: str) -> None:
    async with recorded_server() as server:
        outcomes: JsonObject = {}

        async def ask(sent: Recorded, api: str = "chat") -> str:
            server.answers(sent)
            heart = Heartbeat()
            heart.speak(1, 1)
            options = RunOptions(stream=sent.content_type == "text/event-stream", llm_timeout=60)
            try:
                reply = await ask_model(asking(server, api), [Message.user("?")], options, heart)
            except ModelError as error:
                return f"{error.kind}: {error.message:.120}"
            return f"answered: {len(reply.message.text)}"

        await ask(Recorded.of_json(answer("chat", "to warm up")))
        made = bombs(size)
        sent = {name: made[name]() for name in names or made}
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for name, bomb in sent.items():
            outcome = await ask(bomb, "responses" if name == "items" else "chat")
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
            outcomes[name] = {"outcome": outcome, "sent": len(bomb.body), "grown_mib": grown}
        await close_clients()
        print(json.dumps(outcomes, indent=1))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), *sys.argv[2:]))
