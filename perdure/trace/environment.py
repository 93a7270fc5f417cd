"""Live tracing by OpenTelemetry's environment variables, and delivery of a trace over OTLP/HTTP."""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..errors import ConfigurationError
from ..redaction import redact

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def wants_traces() -> bool:
    """Return whether the environment names a collector and does not turn traces off."""
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return (
        any(map(os.environ.get, ENDPOINTS))
        and not is_off
        and os.environ.get("OTEL_TRACES_EXPORTER") != "none"
    )


def provider_of_process(warn: Callable[[str], None]) -> TracerProvider | None:
    """Return the provider that the program has set for all its spans; else one that sends spans to
    the environment's collector, and the remaining ones at exit; None if the environment names none.

    Calls `warn` if the extra `otlp` is missing or the variables are wrong: runs continue without
    live traces.
    """
    if (own := _program_provider()) is not None:
        return own
    return _provider_to(_endpoint_variable(), warn) if wants_traces() else None


def _program_provider() -> TracerProvider | None:
    """Return the program's provider without importing OpenTelemetry: a program that has set one has
    imported it.
    """
    if "opentelemetry.sdk.trace" not in sys.modules:
        return None
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import get_tracer_provider

    own = get_tracer_provider()
    return own if isinstance(own, TracerProvider) else None


def _endpoint_variable() -> str:
    return next((name for name in ENDPOINTS if os.environ.get(name)), ENDPOINTS[-1])


@functools.cache
def _provider_to(named: str, warn: Callable[[str], None]) -> TracerProvider | None:
    """Return the provider for the collector that this variable names."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        warn(
            f"{named} is set, but runs are not traced without another package: pip install "
            "'perdure[otlp]'"
        )
        return None
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from .rebuild import trace_resource

    provider = TracerProvider(resource=trace_resource())
    try:
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    except ValueError as error:
        warn(f"{named} is set, but runs are not traced: {error}")
        return None
    return provider


BATCH = 256
"""Spans in one request: with content, one span may take some hundred kilobytes."""
DEFAULT_ENDPOINT = "http://localhost:4318"
_PATH = "/v1/traces"


class DeliveryError(Exception):
    """Raised when the collector does not accept the spans; the text contains the address and the
    reason.
    """


def endpoint_of(given: str | None = None) -> str:
    """Return the URL for spans: the given one, else that of OpenTelemetry's own variables, else its
    default.

    A URL without a path is that of a collector, and gets the path for traces. Raises
    `ConfigurationError` for a value that is not a URL.
    """
    exact, base = (os.environ.get(name, "") for name in ENDPOINTS)
    if not given and exact:
        return _require_url(exact)
    url = _require_url(given or base or DEFAULT_ENDPOINT)
    is_base = not given or urlsplit(url).path in ("", "/")
    return f"{url.rstrip('/')}{_PATH}" if is_base else url


def send(spans: Sequence[ReadableSpan], endpoint: str | None = None) -> str:
    """Send the spans and return the URL that has accepted them. Blocks until then.

    Headers, certificates, compression and time-outs come from OpenTelemetry's own variables
    (`OTEL_EXPORTER_OTLP_HEADERS` …). Raises `DeliveryError` if the spans were not accepted, and
    `ConfigurationError` without the extra `otlp` and for an endpoint that is not a URL.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise ConfigurationError(
            "sending a trace needs another package: pip install 'perdure[otlp]'"
        ) from error
    url = endpoint_of(endpoint)
    exporter = OTLPSpanExporter(endpoint=url)
    with ExitStack() as stack:
        stack.callback(exporter.shutdown)
        _export(exporter, spans, url, stack.enter_context(_ExporterLog("opentelemetry.exporter")))
    return redact(url)


def _export(
    exporter: SpanExporter, spans: Sequence[ReadableSpan], url: str, said: _ExporterLog
) -> None:
    from opentelemetry.sdk.trace.export import (
        SpanExportResult,
    )  # a worker imports this module, and sends no trace

    for start in range(0, len(spans), BATCH):
        if exporter.export(spans[start : start + BATCH]) is not SpanExportResult.SUCCESS:
            raise DeliveryError(_delivery_text(url, said, start, len(spans)))


def _delivery_text(url: str, said: _ExporterLog, sent: int, all_spans: int) -> str:
    why = redact("; ".join(said.texts[-2:]).rstrip(".") or "no reason is known")
    return (
        f"{redact(url)} has taken {sent} of {all_spans} spans: {why}. "
        "Expected an OTLP/HTTP collector: name it after --send, or by OTEL_EXPORTER_OTLP_ENDPOINT"
    )


def _require_url(url: str) -> str:
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
        raise ConfigurationError(
            f"the OTLP endpoint {redact(url)!r} is not a URL. Expected one such as "
            f"{DEFAULT_ENDPOINT}"
        )
    return url


class _ExporterLog(logging.Handler):
    """Keeps the exporter's log lines, the only source for the reason of a failed delivery."""

    def __init__(self, name: str) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        self._logger = logging.getLogger(name)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def __enter__(self) -> _ExporterLog:
        self._propagates = self._logger.propagate
        self._logger.propagate = False
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagates
