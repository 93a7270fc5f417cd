"""Live tracing where OpenTelemetry's environment variables ask for it, and workers that are killed
meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from temporalio.client import Client

from perdure.testing import ScriptedModel, says
from perdure.trace.environment import ENDPOINTS, provider_of_process, wants_traces

from ..support.agents import Scripted, scripted_agent
from ..support.kills import Point, Scene, conversation
from ..support.stage import Stage
from ..support.tracing import names
from ..support.waiting import wait_until
from ..support.workers import Nursery


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


@pytest.fixture(autouse=True)
def _no_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*ENDPOINTS, "OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER"):
        monkeypatch.delenv(name, raising=False)


async def test_spans_go_to_the_collector_of_the_environment(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    with collector() as server, ScriptedModel([says("done")]) as model:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        provider = provider_of_process(warnings.append)
        assert provider is not None
        async with stage.worker(tracer_provider=provider):
            run = await stage.start(scripted_agent(model))
            await run.result()
        provider.shutdown()
    assert warnings == []
    assert server.paths[0] == "/v1/traces"
    assert sorted(server.names) == sorted(names(await run.trace()))
    (resource,) = server.requests[0].resource_spans
    assert {pair.key: pair.value.string_value for pair in resource.resource.attributes}[
        "service.name"
    ] == "perdure"


async def test_a_worker_that_is_killed_leaves_its_spans_to_the_next_one(
    client: Client,
    address: str,
    scripted: Scripted,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with collector() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        async with Nursery() as nursery:
            scene = Scene(client, nursery, scripted(conversation()), tmp_path, address)
            scene.hold(second := Point("tool", 2))
            worker = await scene.worker()
            run = await scene.start(scripted_agent(scene.model, ["step"]))
            await scene.reach(second)
            await wait_until(lambda: "execute_tool step" in server.names)
            worker.kill()
            await scene.worker()
            await scene.outcome()
            await wait_until(lambda: "invoke_agent tested" in server.names)
    assert sorted(server.names) == sorted(names(await run.trace()))


async def test_calls_send_their_spans_to_the_collector_of_the_environment(address: str) -> None:
    """Also those that were not sent yet when the program ends; a provider of the program's own
    comes before it.
    """
    code = """
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import set_tracer_provider
from perdure import Agent, invoke_agent
connection = {"kind": "key", "endpoint": %r, "apiKey": "${env:TEST_KEY}"}
model = {"id": "m", "provider": "openai", "connection": connection}
agent = Agent.model_validate({"name": "tested", "model": model, "instructions": "user:\\nHello"})
print(invoke_agent(agent), invoke_agent(agent))
own, seen = TracerProvider(), InMemorySpanExporter()
own.add_span_processor(SimpleSpanProcessor(seen))
set_tracer_provider(own)
invoke_agent(agent)
print(sorted(span.name for span in seen.get_finished_spans()))
"""
    with collector() as server, ScriptedModel([says("done")]) as model:
        environment = {
            **os.environ,
            "TEST_KEY": "sk-test",
            "TEMPORAL_ADDRESS": address,
            "OTEL_EXPORTER_OTLP_ENDPOINT": server.url,
        }
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", code % model.openai_endpoint],
            capture_output=True,
            text=True,
            timeout=60,
            env=environment,
        )
    assert done.stdout == "done done\n['chat m', 'invoke_agent tested']\n", done.stderr
    assert sorted(server.names) == [
        "chat m",
        "chat m",
        "invoke_agent tested",
        "invoke_agent tested",
    ]


def test_nothing_is_exported_unless_the_environment_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert provider_of_process(pytest.fail) is None
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1/v1/traces")
    assert wants_traces()
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    assert not wants_traces()


def test_without_the_extra_a_warning_names_it() -> None:
    code = """
import os, sys
sys.modules["opentelemetry.exporter.otlp.proto.http.trace_exporter"] = None
os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:1"
from perdure.trace.environment import provider_of_process
print(provider_of_process(print))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == [
        "OTEL_EXPORTER_OTLP_ENDPOINT is set, but runs are not traced without another package: "
        "pip install 'perdure[otlp]'",
        "None",
    ]


async def exists(path: Path) -> bool:
    return path.exists()
