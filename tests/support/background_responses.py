"""A provider that makes responses in the background, as OpenAI does: it goes on when nobody reads,
and counts tokens.

What is not answered exactly so by OpenAI is said in its documentation:
https://platform.openai.com/docs/guides/background
"""

from __future__ import annotations

import json
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from perdure.agents import Agent

INPUT_TOKENS = 1000
"""Of each response."""


@dataclass
class Made:
    """One response: what it says was said once, and is paid for once."""

    id: str
    words: list[str]
    pause: float
    is_background: bool = True
    is_stored: bool = True
    thinking: str = "Let me see. "
    events: list[dict[str, Any]] = field(default_factory=list)
    status: str = "queued"
    said: int = 0
    """How many of its words the model has said: the output tokens that are paid for."""
    readers: int = 0
    """How many connections have read of it."""
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def text(self) -> str:
        return "".join(self.words)

    def body(self) -> dict[str, Any]:
        items: list[dict[str, Any]] = []
        if self.status in ("completed", "incomplete"):
            part = {
                "type": "output_text",
                "text": "".join(self.words[: self.said]),
                "annotations": [],
            }
            items = [
                {
                    "type": "reasoning",
                    "id": f"rs_{self.id}",
                    "summary": [{"type": "summary_text", "text": "x"}],
                },
                {
                    "type": "message",
                    "id": f"msg_{self.id}",
                    "role": "assistant",
                    "status": "completed",
                }
                | {"content": [part]},
            ]
        usage = {
            "input_tokens": INPUT_TOKENS,
            "output_tokens": self.said,
            "total_tokens": INPUT_TOKENS + self.said,
        }
        return {
            "id": self.id,
            "object": "response",
            "background": self.is_background,
            "store": self.is_stored,
            "status": self.status,
            "model": "gpt-5",
            "error": {"code": "server_error", "message": "It broke."}
            if self.status == "failed"
            else None,
            "incomplete_details": {"reason": "max_output_tokens"}
            if self.status == "incomplete"
            else None,
            "output": items,
            "usage": usage if items else None,
        }

    def add(self, type: str, **data: Any) -> None:
        with self.changed:
            self.events.append({"type": type, "sequence_number": len(self.events), **data})
            self.changed.notify_all()

    def enter(self, status: str) -> None:
        with self.changed:
            if self.status in ("queued", "in_progress"):
                self.status = status
                type = "failed" if status == "cancelled" else status
                self.add(f"response.{type}", response=self.body())

    def run(self, end: str, stop_after: int | None) -> None:
        """Say one word after the other, whoever listens."""
        self.enter("in_progress")
        self.add("response.reasoning_summary_text.delta", delta=self.thinking)
        for word in self.words[:stop_after]:
            time.sleep(self.pause)
            with self.changed:
                if self.status != "in_progress":
                    return
                self.said += 1
                self.add("response.output_text.delta", delta=word)
        if stop_after is None:
            self.enter(end)

    def follow(self) -> Iterator[dict[str, Any]]:
        """Yield the events as they come, to the last one."""
        at = 0
        while True:
            with self.changed:
                while at >= len(self.events):
                    if self.status not in ("queued", "in_progress"):
                        return
                    self.changed.wait(0.5)
                event = self.events[at]
            at += 1
            yield event


class BackgroundServer:
    """The server, on a free port of loopback while it is open; its attributes say how it
    behaves.
    """

    def __init__(self, *, words: int = 40, pause: float = 0.01) -> None:
        self.words, self.pause = words, pause
        self.refuses = False
        """Whether it answers 400 to `background`."""
        self.ignores = False
        """Whether it makes every response at once, whatever it is asked."""
        self.created_after = 0.0
        """Seconds from the request, when the response is begun, to the first event."""
        self.failures: list[int] = []
        """The statuses of the next answers to readers, before there are true ones."""
        self.stores = True
        """Whether it says that responses are stored; they are in any case."""
        self.end = "completed"
        self.stop_after: int | None = None
        """After so many words, nothing more is said."""
        self.drop_every = 0
        """Streams break off after so many events; 0 for never."""
        self.says_done = False
        """Whether it says `[DONE]` where a stream breaks off."""
        self.silent_after = 0
        """The first stream of a response stays open without a word after so many events; 0 for
        never."""
        self.typeless = False
        """Whether events that tell of the response as such do not say their type, but for the first
        and the last."""
        self.made: list[Made] = []
        self.bodies: list[dict[str, Any]] = []
        self.cancelled: list[str] = []
        self.forgotten: set[str] = set()
        self.requests: list[str] = []
        self.told_at = 0.0
        """When the first event of a response was sent last, on the clock of `time.monotonic`."""
        self._guard = threading.Lock()

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"provider": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def agent(self, **options: Any) -> Agent:
        """An agent whose responses are made here, in the background."""
        connection = {"kind": "key", "endpoint": self.url}
        model = {
            "id": "gpt-5",
            "provider": "openai",
            "apiType": "responses",
            "connection": connection,
        }
        return Agent.model_validate(
            {
                "name": "tested",
                "model": {**model, "options": {"background": "on", **options}},
                "tools": [],
            }
        )

    @property
    def paid(self) -> int:
        """All output tokens."""
        return sum(each.said for each in self.made)

    def begin(self, body: dict[str, Any]) -> Made:
        with self._guard:
            number = len(self.made) + 1
            words = [f"{number}:wörd{each} 🙂 " for each in range(self.words)]
            is_background = bool(body.get("background")) and not self.ignores
            made = Made(f"resp_{number}", words, self.pause, is_background, self.stores)
            self.made.append(made)
        made.add("response.created", response=made.body())
        threading.Thread(target=made.run, args=(self.end, self.stop_after), daemon=True).start()
        return made

    def find(self, id: str) -> Made | None:
        return next(
            (each for each in self.made if each.id == id and id not in self.forgotten), None
        )


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Be silent: clients are killed."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    provider: BackgroundServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        self.provider.requests.append(f"POST {self.path}")
        if self.path.endswith("/cancel"):
            self._cancel(self.path.split("/")[-2])
            return
        self.provider.bodies.append(body)
        if self.provider.refuses and body.get("background"):
            self._refuse(400, "Unsupported parameter: 'background' is not supported here.")
            return
        made = self.provider.begin(body)
        time.sleep(self.provider.created_after)
        if body.get("stream"):
            self._stream(made)
            return
        if not made.is_background:
            list(made.follow())
        self._send(200, made.body())

    def do_GET(self) -> None:
        self.provider.requests.append(f"GET {self.path}")
        address = urlsplit(self.path)
        made = self.provider.find(address.path.split("/")[-1])
        if self.provider.failures:
            self._refuse(self.provider.failures.pop(0), "Not now.")
        elif made is None:
            self._refuse(404, "Response not found.")
        else:
            self._send(200, made.body())

    def _cancel(self, id: str) -> None:
        made = self.provider.find(id)
        if made is None:
            self._refuse(404, "Response not found.")
        elif made.status in ("completed", "failed"):
            self._refuse(400, "It has ended.")
        else:
            if made.status != "cancelled":
                self.provider.cancelled.append(id)
            made.enter("cancelled")
            self._send(200, made.body())

    def _stream(self, made: Made) -> None:
        made.readers += 1
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        with suppress(OSError):
            for sent, event in enumerate(made.follow(), 1):
                if self.provider.typeless and event["type"] == "response.in_progress":
                    event = {key: value for key, value in event.items() if key != "type"}
                data = f"data: {json.dumps(event)}\n\n".encode()
                if sent == self.provider.drop_every and self.provider.says_done:
                    data += b"data: [DONE]\n\n"
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
                if sent == 1:
                    self.provider.told_at = time.monotonic()
                if sent == self.provider.silent_after and made.readers == 1:
                    time.sleep(3)
                if sent == self.provider.drop_every:
                    self.close_connection = True
                    return
            self.wfile.write(b"0\r\n\r\n")
            return
        if not made.is_background:
            made.enter("cancelled")

    def _refuse(self, status: int, message: str) -> None:
        self._send(
            status, {"error": {"message": message, "type": "invalid_request_error", "code": None}}
        )

    def _send(self, status: int, body: dict[str, Any]) -> None:
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""
