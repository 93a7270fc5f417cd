"""Sending to a collector: the official protobuf request arrives, and what does not arrive is an
error.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from perdure.errors import ConfigurationError
from perdure.trace.environment import BATCH, DeliveryError, send, traces_url

from ..support.made_traces import a_long_run, a_refund


class Collector(ThreadingHTTPServer):
    """Takes OTLP/HTTP requests; answers all of them with one status."""

    def __init__(self, status: int = 200) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = status
        self.paths: list[str] = []
        self.requests: list[ExportTraceServiceRequest] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def names(self) -> list[str]:
        """Of all spans that have come."""
        return [
            span.name
            for request in self.requests
            for by_resource in request.resource_spans
            for by_scope in by_resource.scope_spans
            for span in by_scope.spans
        ]


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.paths.append(self.path)
        self.server.requests.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def collector(status: int = 200) -> Iterator[Collector]:
    with Collector(status) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_every_span_arrives_with_its_ids() -> None:
    spans = a_refund()
    with collector() as server:
        assert send(spans, server.url) == server.url
    assert server.paths == ["/v1/traces"]
    assert server.names == [span.name for span in spans]
    first = server.requests[0].resource_spans[0].scope_spans[0].spans[0]
    assert (first.trace_id.hex(), first.span_id.hex()) == (
        "0af7651916cd43dd8448eb211c80319c",
        "0000000000001001",
    )


def test_many_spans_come_in_several_requests() -> None:
    with collector() as server:
        send(a_long_run(BATCH // 4), server.url)
    assert len(server.requests) == 2
    assert len(server.names) == BATCH + 1


def test_a_refusal_is_an_error_whose_reason_is_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        collector(status=401) as server,
        pytest.raises(DeliveryError, match="accepted 0 of 14 spans"),
    ):
        send(a_refund(), server.url)
    assert "Unauthorized" in caplog.text


def test_nobody_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    with collector() as server:
        gone = server.url
    with pytest.raises(DeliveryError, match=f"{gone} has accepted 0 of 14 spans"):
        send(a_refund(), gone)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://other:1", "http://other:1/v1/traces"),
        ("http://other:1/", "http://other:1/v1/traces"),
        ("https://other/otlp/v1/traces", "https://other/otlp/v1/traces"),
    ],
)
def test_a_collector_is_named_by_its_base(given: str, url: str) -> None:
    assert traces_url(given) == url


def test_what_is_no_url_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'localhost:4318' is not a URL"):
        traces_url("localhost:4318")
