"""The HTTP side of the scripted model: connections, delays, streams, and clients that
disconnect.
"""

from __future__ import annotations

import json
import socket
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol

from ..json_types import JsonObject
from .script import ScriptedReply, ScriptedRequest
from .wires.chat import CountedReply, to_json
from .wires.table import Wire, wire_for


class Responder(Protocol):
    """Chooses the answer to each request. Called from the connections' threads."""

    def receive(
        self, wire: Wire, path: str, headers: dict[str, str], body: JsonObject
    ) -> ScriptedRequest:
        """Record a received request."""

    def reply_to(self, wire: Wire, request: ScriptedRequest) -> ScriptedReply:
        """Return the reply to send. Never raises."""

    def finish(self, request: ScriptedRequest, *, aborted: bool) -> None:
        """Record how a request ended; `aborted` if the client left before the end of the
        response.
        """


class LoopbackServer(socketserver.ThreadingTCPServer):
    """Serves on 127.0.0.1 from construction until `close`, with a daemon thread for each
    connection.

    Raises OSError if the port is taken; port 0 takes any free one.
    """

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 512

    def __init__(self, responder: Responder, port: int) -> None:
        self.responder = responder
        self.closing = threading.Event()
        self._connections: set[Any] = set()
        self._guard = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)
        self.port: int = self.server_address[1]
        threading.Thread(
            target=self.serve_forever, args=(0.02,), name="scripted-model", daemon=True
        ).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._guard:
            self._connections.discard(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def close(self) -> None:
        """End every connection, and wait up to a second for their threads."""
        self.closing.set()
        self.shutdown()
        self.server_close()
        with self._guard:
            for connection in self._connections:
                _shut(connection)
        deadline = time.monotonic() + 1.0
        while self._connections and time.monotonic() < deadline:
            time.sleep(0.002)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: LoopbackServer

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        wire = wire_for(self.path)
        if wire is None:
            self._send(404, {"error": {"message": f"scripted model: no API at {self.path}"}}, {})
            return
        try:
            body = json.loads(raw)
        except ValueError as error:
            self._send(
                400, wire.error(400, f"scripted model: the request is not JSON: {error}"), {}
            )
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = self.server.responder.receive(wire, self.path, headers, body)
        sent = False
        try:
            reply = self.server.responder.reply_to(wire, request)
            sent = self._answer(wire, request, reply, len(raw))
        except ConnectionError:
            self.close_connection = True
        finally:
            self.server.responder.finish(
                request, aborted=not sent and not self.server.closing.is_set()
            )

    def do_GET(self) -> None:
        self._send(404, {"error": {"message": f"scripted model: no API at {self.path}"}}, {})

    def _answer(
        self, wire: Wire, request: ScriptedRequest, reply: ScriptedReply, request_bytes: int
    ) -> bool:
        """Send the response; return whether the client stayed until its end."""
        if not self._client_stays(reply.delay):
            self.close_connection = True
            return False
        headers = {
            wire.REQUEST_ID_HEADER: f"req_scripted_{request.step}_{request.attempt}"
        } | reply.headers
        given = CountedReply.to(request, reply, request_bytes=request_bytes)
        if request.is_streaming and reply.status == 200:
            return self._stream(wire, given, headers)
        if reply.drop_after is not None:
            self._drop()
        elif reply.error is not None or reply.status != 200:
            body = reply.error or wire.error(reply.status, f"scripted error {reply.status}")
            self._send(reply.status, body, headers)
        else:
            self._send(200, wire.answer(given), headers)
        return True

    def _stream(self, wire: Wire, given: CountedReply, headers: dict[str, str]) -> bool:
        self._send_head(
            200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"} | headers
        )
        for sent, event in enumerate(wire.stream(given)):
            if sent == given.reply.drop_after:
                self._drop()
                return True
            if not self._client_stays(given.reply.chunk_delay):
                self.close_connection = True
                return False
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
        self.wfile.write(b"0\r\n\r\n")
        return True

    def _client_stays(self, seconds: float) -> bool:
        """Wait for this many seconds; return False as soon as the client has closed the
        connection.
        """
        deadline = time.monotonic() + seconds
        self.connection.settimeout(seconds)
        try:
            if self.connection.recv(1, socket.MSG_PEEK) == b"":
                return False
        except (TimeoutError, BlockingIOError):
            return True
        finally:
            self.connection.settimeout(None)
        # The client has already sent its next request, so a read no longer shows whether it leaves.
        self.server.closing.wait(deadline - time.monotonic())
        return True

    def _drop(self) -> None:
        self.close_connection = True
        _shut(self.connection)

    def _send(self, status: int, body: JsonObject, headers: dict[str, str]) -> None:
        payload = to_json(body)
        self._send_head(
            status,
            {"content-type": "application/json", "content-length": str(len(payload))} | headers,
        )
        self.wfile.write(payload)

    def _send_head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: `ScriptedModel.requests` is the log."""


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the client closed it first
