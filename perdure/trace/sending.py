"""Sends a trace to a collector, over OTLP/HTTP."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import ExitStack
from urllib.parse import urlsplit

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from ..errors import ConfigurationError
from ..redaction import redact

BATCH = 256
"""Spans in one request: with content, one may take some hundred kilobytes."""
DEFAULT_ENDPOINT = "http://localhost:4318"
_PATH = "/v1/traces"
_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class DeliveryError(Exception):
    """The collector did not take the spans; the text says where they were sent, and why."""


def endpoint_of(given: str | None = None) -> str:
    """The URL that spans are sent to: the given one, else that of OpenTelemetry's own variables, else its default.

    A URL without a path is that of a collector, whose path for traces is added. Raises `ConfigurationError` for what
    is no URL.
    """
    exact, base = (os.environ.get(name, "") for name in _VARIABLES)
    if not given and exact:
        return _require_url(exact)
    url = _require_url(given or base or DEFAULT_ENDPOINT)
    is_base = not given or urlsplit(url).path in ("", "/")
    return f"{url.rstrip('/')}{_PATH}" if is_base else url


def send(spans: Sequence[ReadableSpan], endpoint: str | None = None) -> str:
    """Send the spans and return the URL that has taken them; blocks until it has.

    Headers, certificates, compression and time-outs are those of OpenTelemetry's own variables
    (`OTEL_EXPORTER_OTLP_HEADERS` …). Raises `DeliveryError` when the spans were not taken, and `ConfigurationError`
    without the extra `otlp` and for an endpoint that is no URL.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise ConfigurationError("sending a trace needs another package: pip install 'perdure[otlp]'") from error
    url = endpoint_of(endpoint)
    exporter = OTLPSpanExporter(endpoint=url)
    with ExitStack() as stack:
        stack.callback(exporter.shutdown)
        _export(exporter, spans, url, stack.enter_context(_Overheard("opentelemetry.exporter")))
    return redact(url)


def _export(exporter: SpanExporter, spans: Sequence[ReadableSpan], url: str, said: _Overheard) -> None:
    for start in range(0, len(spans), BATCH):
        if exporter.export(spans[start : start + BATCH]) is not SpanExportResult.SUCCESS:
            raise DeliveryError(_undelivered(url, said, start, len(spans)))


def _undelivered(url: str, said: _Overheard, sent: int, all_spans: int) -> str:
    why = redact("; ".join(said.texts[-2:]).rstrip(".") or "no reason is known")
    return (
        f"{redact(url)} has taken {sent} of {all_spans} spans: {why}. "
        "Expected an OTLP/HTTP collector: name it after --send, or by OTEL_EXPORTER_OTLP_ENDPOINT"
    )


def _require_url(url: str) -> str:
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
        raise ConfigurationError(
            f"the OTLP endpoint {redact(url)!r} is no URL. Expected one such as {DEFAULT_ENDPOINT}"
        )
    return url


class _Overheard(logging.Handler):
    """Keeps what the exporter logs, the only place where it says why spans are not taken."""

    def __init__(self, name: str) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        self._logger = logging.getLogger(name)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def __enter__(self) -> _Overheard:
        self._propagates = self._logger.propagate
        self._logger.propagate = False
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagates
