"""Live tracing by OpenTelemetry's environment variables."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

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
