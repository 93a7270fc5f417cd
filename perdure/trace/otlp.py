"""A trace in the JSON form of the OpenTelemetry protocol (OTLP/JSON)."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import Link, SpanContext, SpanKind

_KINDS = {
    SpanKind.INTERNAL: 1,
    SpanKind.SERVER: 2,
    SpanKind.CLIENT: 3,
    SpanKind.PRODUCER: 4,
    SpanKind.CONSUMER: 5,
}
"""The protocol counts from 1, Python's own enumeration from 0."""


def to_otlp_json(spans: Iterable[ReadableSpan]) -> dict[str, Any]:
    """The spans as an `ExportTraceServiceRequest`, by resource and scope.

    Ids are hexadecimal; times and whole numbers are strings, for JSON's numbers have 53 bits; kinds and status codes
    are numbers. A span whose end is not known has no `endTimeUnixNano`. Never raises.
    """
    resources: dict[Any, dict[str, Any]] = {}
    scopes: dict[Any, list[dict[str, Any]]] = {}
    for span in spans:
        scope = span.instrumentation_scope
        into = resources.setdefault(span.resource, {"resource": _resource(span), "scopeSpans": []})
        key = (span.resource, scope)
        if key not in scopes:
            scopes[key] = []
            into["scopeSpans"].append({"scope": _scope(span), "spans": scopes[key]})
        scopes[key].append(_span(span))
    return {"resourceSpans": list(resources.values())}


def _resource(span: ReadableSpan) -> dict[str, Any]:
    return {"attributes": _attributes(span.resource.attributes)}


def _scope(span: ReadableSpan) -> dict[str, Any]:
    scope = span.instrumentation_scope
    if scope is None:
        return {}
    return {"name": scope.name, **({"version": scope.version} if scope.version else {})}


def _span(span: ReadableSpan) -> dict[str, Any]:
    status = {"code": span.status.status_code.value, "message": span.status.description}
    told = {
        **(_ids(span.context) if span.context else {}),
        "parentSpanId": f"{span.parent.span_id:016x}" if span.parent else None,
        "name": span.name,
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": str(span.start_time or 0),
        "endTimeUnixNano": str(span.end_time) if span.end_time is not None else None,
        "attributes": _attributes(span.attributes),
        "events": [_event(event) for event in span.events],
        "links": [_link(link) for link in span.links],
        "status": {name: value for name, value in status.items() if value},
    }
    return {name: value for name, value in told.items() if value is not None}


def _ids(context: SpanContext) -> dict[str, str]:
    return {"traceId": f"{context.trace_id:032x}", "spanId": f"{context.span_id:016x}"}


def _event(event: Event) -> dict[str, Any]:
    return {"timeUnixNano": str(event.timestamp), "name": event.name, "attributes": _attributes(event.attributes)}


def _link(link: Link) -> dict[str, Any]:
    return {**_ids(link.context), "attributes": _attributes(link.attributes)}


def _attributes(attributes: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in (attributes or {}).items()]


def _value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case str():
            return {"stringValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value if math.isfinite(value) else _not_finite(value)}
        case bytes():
            return {"bytesValue": base64.b64encode(value).decode()}
        case Mapping():
            return {"kvlistValue": {"values": _attributes(value)}}
        case Sequence():
            return {"arrayValue": {"values": [_value(item) for item in value]}}
        case _:
            return {"stringValue": str(value)}


def _not_finite(value: float) -> str:
    """What protobuf's JSON writes for a number that JSON has no form for."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
