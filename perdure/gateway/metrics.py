"""Metrics of a gateway whose process serves them (`perdure serve --metrics-address`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from temporalio.client import Client
from temporalio.runtime import Runtime

REQUESTS = "perdure_gateway_requests"
REFUSALS = "perdure_gateway_refusals"
OPEN_REQUESTS = "perdure_gateway_open_requests"
_REFUSED = {401: "unauthenticated", 403: "forbidden", 413: "size"}
_REASONS = {"too_many_open": "open", "too_many_open_each": "open_each", "too_many_rate": "rate"}


class AnsweredRequest(Protocol):
    """The measured properties of a request."""

    status: int
    kind: str


class Meters:
    """The metrics of one process. The only labels are the protocol, the status class and the
    reason.
    """

    def __init__(self, client: Client) -> None:
        runtime = client.service_client.config.runtime or Runtime.default()
        meter = runtime.metric_meter
        self._requests = meter.create_counter(REQUESTS, "Requests that are over")
        self._refusals = meter.create_counter(REFUSALS, "Requests that were refused")
        self._open_requests = meter.create_gauge(
            OPEN_REQUESTS, "Requests that are open, streams among them"
        )
        self._open: Counter[str] = Counter()

    @contextmanager
    def request(self, protocol: str, request: AnsweredRequest) -> Iterator[None]:
        """Measure a request while the block runs."""
        about = {"protocol": protocol}
        self._add(protocol, 1)
        try:
            yield
        finally:
            self._add(protocol, -1)
            status = f"{request.status // 100}xx" if request.status else "none"
            self._requests.add(1, {**about, "status": status})
            if reason := _REASONS.get(request.kind) or _REFUSED.get(request.status):
                self._refusals.add(1, {**about, "reason": reason})

    def _add(self, protocol: str, number: int) -> None:
        self._open[protocol] += number
        self._open_requests.set(self._open[protocol], {"protocol": protocol})
