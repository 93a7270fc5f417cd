"""Metrics of a gateway whose process serves them (`perdure serve --metrics-address`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

from temporalio.client import Client
from temporalio.common import MetricMeter
from temporalio.runtime import Runtime

from ..worker.metrics import GATEWAY_ANSWER_SECONDS, GATEWAY_LOOP_DELAY_SECONDS

REQUESTS = "perdure_gateway_requests"
REFUSALS = "perdure_gateway_refusals"
OPEN_REQUESTS = "perdure_gateway_open_requests"
OPEN_STREAMS = "perdure_gateway_open_streams"
SECONDS = 1.0
"""Seconds between two samples of the event loop."""
_REFUSED = {401: "unauthenticated", 403: "forbidden", 413: "size"}
_REASONS = {"too_many_open": "open", "too_many_open_each": "open_each", "too_many_rate": "rate"}


class AnsweredRequest(Protocol):
    """The measured properties of a request."""

    status: int
    kind: str
    is_stream: bool
    on_answer: Callable[[], None]


class Meters:
    """The metrics of one process. The only labels are the protocol, the status class and the
    reason.
    """

    def __init__(self, client: Client) -> None:
        meter: MetricMeter = (
            client.service_client.config.runtime or Runtime.default()
        ).metric_meter
        self._requests = meter.create_counter(REQUESTS, "Requests that are over")
        self._refusals = meter.create_counter(REFUSALS, "Requests that were refused")
        self._open_requests = meter.create_gauge(
            OPEN_REQUESTS, "Requests that are open, streams among them"
        )
        self._open_streams = meter.create_gauge(OPEN_STREAMS, "Streams of events that are open")
        self._answer_seconds = meter.create_histogram_float(
            GATEWAY_ANSWER_SECONDS, "Until an answer begins"
        )
        self._loop_delay = meter.create_histogram_float(
            GATEWAY_LOOP_DELAY_SECONDS, "How late the event loop is"
        )
        self._open: dict[tuple[str, bool], int] = {}

    @contextmanager
    def request(self, protocol: str, request: AnsweredRequest) -> Iterator[None]:
        """Measure a request while the block runs."""
        about, begun = {"protocol": protocol}, time.monotonic()

        def note_answer() -> None:
            self._answer_seconds.record(time.monotonic() - begun, about)
            if request.is_stream:
                self._add(protocol, 1, is_stream=True)

        request.on_answer = note_answer
        self._add(protocol, 1)
        try:
            yield
        finally:
            self._add(protocol, -1)
            if request.is_stream:
                self._add(protocol, -1, is_stream=True)
            self._requests.add(
                1, {**about, "status": f"{request.status // 100}xx" if request.status else "none"}
            )
            if reason := _REASONS.get(request.kind) or _REFUSED.get(request.status):
                self._refusals.add(1, {**about, "reason": reason})

    def _add(self, protocol: str, number: int, *, is_stream: bool = False) -> None:
        key = (protocol, is_stream)
        self._open[key] = self._open.get(key, 0) + number
        gauge = self._open_streams if is_stream else self._open_requests
        gauge.set(self._open[key], {"protocol": protocol})

    @asynccontextmanager
    async def measuring(self) -> AsyncIterator[None]:
        """Measure the event loop's lag while the block runs."""
        looking = asyncio.create_task(self._look())
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.wait([looking])

    async def _look(self) -> None:
        while True:
            begun = time.monotonic()
            await asyncio.sleep(SECONDS)
            self._loop_delay.record(max(0.0, time.monotonic() - begun - SECONDS))
