"""A receiver of OTLP/JSON that takes nothing but what the protocol says, and gives the spans back
as plain facts.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

TRACE_ID, SPAN_ID, DIGITS, INT = (
    re.compile(form) for form in (r"[0-9a-f]{32}", r"[0-9a-f]{16}", r"\d+", r"-?\d+")
)
VALUES = (
    "stringValue",
    "boolValue",
    "intValue",
    "doubleValue",
    "arrayValue",
    "kvlistValue",
    "bytesValue",
)
SPAN = {
    *("traceId", "spanId", "parentSpanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano"),
    *("attributes", "events", "links", "status", "flags", "traceState"),
    *("droppedAttributesCount", "droppedEventsCount", "droppedLinksCount"),
}


@dataclass(frozen=True)
class Received:
    """A span as it has come."""

    trace_id: str
    id: str
    parent: str
    name: str
    kind: int
    start: int
    end: int | None
    attributes: dict[str, Any]
    events: list[tuple[str, int, dict[str, Any]]]
    links: list[str]
    status: int
    message: str
    resource: dict[str, Any]
    scope: str


def receive(text: str) -> list[Received]:
    """The spans of a request. Raises AssertionError at whatever is not as the protocol has it."""
    request = json.loads(text, parse_constant=_no_constant)
    assert request.keys() == {"resourceSpans"}
    return [
        _span(span, _attributes(by_resource["resource"]["attributes"]), by_scope["scope"])
        for by_resource in request["resourceSpans"]
        for by_scope in by_resource["scopeSpans"]
        for span in by_scope["spans"]
    ]


def _span(span: dict[str, Any], resource: dict[str, Any], scope: dict[str, Any]) -> Received:
    assert span.keys() <= SPAN
    status = span.get("status", {})
    assert status.keys() <= {"code", "message"}
    assert type(span["kind"]) is int
    assert 1 <= span["kind"] <= 5
    return Received(
        _matching(TRACE_ID, span["traceId"]),
        _matching(SPAN_ID, span["spanId"]),
        _matching(SPAN_ID, span["parentSpanId"]) if "parentSpanId" in span else "",
        _text(span["name"]),
        span["kind"],
        _time(span["startTimeUnixNano"]),
        _time(span["endTimeUnixNano"]) if "endTimeUnixNano" in span else None,
        _attributes(span.get("attributes", [])),
        [
            (
                _text(event["name"]),
                _time(event["timeUnixNano"]),
                _attributes(event.get("attributes", [])),
            )
            for event in span.get("events", ())
        ],
        [
            _matching(TRACE_ID, link["traceId"]) + _matching(SPAN_ID, link["spanId"])
            for link in span.get("links", ())
        ],
        _code(status.get("code", 0)),
        _text(status.get("message", "")),
        resource,
        _text(scope["name"]),
    )


def _attributes(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    assert all(pair.keys() == {"key", "value"} for pair in pairs)
    found = {_text(pair["key"]): _value(pair["value"]) for pair in pairs}
    assert len(found) == len(pairs), "a key comes twice"
    return found


def _value(value: dict[str, Any]) -> Any:
    [(kind, held)] = value.items()
    assert kind in VALUES
    match kind:
        case "intValue":
            return int(_matching(INT, held))
        case "doubleValue":
            assert type(held) in (int, float) or held in ("NaN", "Infinity", "-Infinity")
            return float(held)
        case "boolValue":
            assert type(held) is bool
            return held
        case "arrayValue":
            return [_value(item) for item in held["values"]]
        case "kvlistValue":
            return _attributes(held["values"])
    return _text(held)


def _code(code: Any) -> int:
    assert type(code) is int
    assert code in (0, 1, 2)
    return int(code)


def _time(text: Any) -> int:
    return int(_matching(DIGITS, text))


def _matching(form: re.Pattern[str], text: Any) -> str:
    assert isinstance(text, str)
    assert form.fullmatch(text), f"{text!r} is not {form.pattern}"
    assert form is INT or text.strip("0"), "an id or a time of zeros says that there is none"
    return text


def _text(text: Any) -> str:
    assert isinstance(text, str)
    return text


def _no_constant(name: str) -> Any:
    raise AssertionError(f"{name} is no JSON")
