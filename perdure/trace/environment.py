"""Live tracing as OpenTelemetry's own environment variables ask for it."""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ..tools.threads import end_in_thread

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

FLUSH_SECONDS = 3.0
"""At the end, a collector has this long to take the spans that are left."""


def wants_traces() -> bool:
    """Whether the environment names a collector, and does not say that it is not for traces."""
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return any(map(os.environ.get, ENDPOINTS)) and not is_off and os.environ.get("OTEL_TRACES_EXPORTER") != "none"


@asynccontextmanager
async def exporting(warn: Callable[[str], None]) -> AsyncIterator[TracerProvider | None]:
    """A provider that sends spans to the collector of the environment; None where that names none.

    `warn` is told where it can't be, because the extra `otlp` is missing or the variables are wrong: runs go on without
    live traces. At the end, what was not sent yet is.
    """
    provider = _provider(warn) if wants_traces() else None
    try:
        yield provider
    finally:
        if provider is not None:
            await _flush(provider, warn)


def provider_of_process(warn: Callable[[str], None]) -> TracerProvider | None:
    """The provider that the program has set for all its spans; else as `exporting`, but one for the whole process.

    What is left is sent when the process ends.
    """
    if (own := _set_by_program()) is not None:
        return own
    return _provider_to(os.environ.get(_named(), ""), warn) if wants_traces() else None


def _set_by_program() -> TracerProvider | None:
    """OpenTelemetry is not imported for it: a provider can only be there where somebody else has."""
    if "opentelemetry.sdk.trace" not in sys.modules:
        return None
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import get_tracer_provider

    own = get_tracer_provider()
    return own if isinstance(own, TracerProvider) else None


@functools.cache
def _provider_to(endpoint: str, warn: Callable[[str], None]) -> TracerProvider | None:
    if (provider := _provider(warn)) is not None:
        _flush_at_exit(provider)
    return provider


def _flush_at_exit(provider: TracerProvider) -> None:
    """A process that ends can't start threads any more: the one that sends what is left waits from now on."""
    ending, ended = threading.Event(), threading.Event()

    def flush() -> None:
        ending.wait()
        provider.shutdown()
        ended.set()

    def end() -> None:
        ending.set()
        ended.wait(FLUSH_SECONDS)

    threading.Thread(target=flush, name="perdure last spans", daemon=True).start()
    atexit.register(end)


async def _flush(provider: TracerProvider, warn: Callable[[str], None]) -> None:
    """Send what is left. A collector that does not answer holds up nobody."""
    try:
        async with asyncio.timeout(FLUSH_SECONDS):
            await end_in_thread(provider.shutdown, "last spans")
    except TimeoutError:
        warn(f"The collector that {_named()} names has not taken all spans within {FLUSH_SECONDS:g} s")


def _named() -> str:
    return next((name for name in ENDPOINTS if os.environ.get(name)), ENDPOINTS[-1])


def _provider(warn: Callable[[str], None]) -> TracerProvider | None:
    named = _named()
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        warn(f"{named} is set, but runs are not traced without another package: pip install 'perdure[otlp]'")
        return None
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from .rebuild import trace_resource

    provider = TracerProvider(resource=trace_resource(), shutdown_on_exit=False)
    try:
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    except ValueError as error:
        warn(f"{named} is set, but runs are not traced: {error}")
        return None
    return provider
