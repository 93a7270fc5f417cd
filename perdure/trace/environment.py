"""Live tracing by OpenTelemetry's environment variables, and delivery of a trace over OTLP/HTTP."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..errors import ConfigurationError
from ..redaction import redact

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

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
TRACES_PATH = "/v1/traces"


class DeliveryError(Exception):
    """Raised when the collector does not accept the spans; the text contains the address."""


def send(spans: Sequence[ReadableSpan], endpoint: str | None = None) -> str:
    """Send the spans and return the URL that has accepted them. Blocks until then.

    Without `endpoint`, OpenTelemetry's own variables name the collector, as they give headers,
    certificates, compression and time-outs (`OTEL_EXPORTER_OTLP_HEADERS` …). The exporter logs the
    reason of a failed delivery. Raises `DeliveryError` if the spans were not accepted, and
    `ConfigurationError` without the extra `otlp` and for an endpoint that is not a URL.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import SpanExportResult
    except ImportError as error:
        raise ConfigurationError(
            "sending a trace needs another package: pip install 'perdure[otlp]'"
        ) from error
    exporter = OTLPSpanExporter(endpoint=traces_url(endpoint) if endpoint else None)
    url = redact(endpoint or os.environ.get(_endpoint_variable()) or DEFAULT_ENDPOINT)
    try:
        for start in range(0, len(spans), BATCH):
            if exporter.export(spans[start : start + BATCH]) is not SpanExportResult.SUCCESS:
                raise DeliveryError(
                    f"{url} has accepted {start} of {len(spans)} spans; the log names the reason. "
                    "Expected an OTLP/HTTP collector: name it after --send, or by "
                    "OTEL_EXPORTER_OTLP_ENDPOINT"
                )
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]
    return url


def traces_url(endpoint: str) -> str:
    """Return the URL for spans; one without a path is that of a collector.

    Raises `ConfigurationError` for a value that is not a URL.
    """
    url = urlsplit(endpoint)
    if url.scheme not in ("http", "https") or not url.netloc:
        raise ConfigurationError(
            f"the OTLP endpoint {redact(endpoint)!r} is not a URL. Expected one such as "
            f"{DEFAULT_ENDPOINT}"
        )
    return endpoint if url.path not in ("", "/") else endpoint.rstrip("/") + TRACES_PATH
