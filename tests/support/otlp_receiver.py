"""A receiver of OTLP/JSON by the protocol's own definition, which gives the spans back as plain
facts.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from perdure.json_types import JsonObject


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
    attributes: JsonObject
    events: list[tuple[str, int, JsonObject]]
    links: list[str]
    status: int
    message: str
    resource: JsonObject
    scope: str


def receive(text: str) -> list[Received]:
    """The spans of a request. Raises ParseError or AssertionError at whatever is not as the
    protocol has it.
    """
    sent = json.loads(text)
    request = ParseDict(sent, ExportTraceServiceRequest())
    assert _without_empty(MessageToDict(request, use_integers_for_enums=True)) == _without_empty(
        sent
    )
    return [
        _received(span, by_resource.resource.attributes, by_scope.scope.name)
        for by_resource in request.resource_spans
        for by_scope in by_resource.scope_spans
        for span in by_scope.spans
    ]


def _received(span: Span, resource: Iterable[KeyValue], scope: str) -> Received:
    assert span.kind, "a kind of 0 is not specified"
    return Received(
        _id(span.trace_id, 32),
        _id(span.span_id, 16),
        _id(span.parent_span_id, 16) if span.parent_span_id else "",
        span.name,
        span.kind,
        span.start_time_unix_nano,
        span.end_time_unix_nano or None,
        _attributes(span.attributes),
        [(each.name, each.time_unix_nano, _attributes(each.attributes)) for each in span.events],
        [_id(link.trace_id, 32) + _id(link.span_id, 16) for link in span.links],
        span.status.code,
        span.status.message,
        _attributes(resource),
        scope,
    )


def _id(read: bytes, digits: int) -> str:
    """The hexadecimal digits that were sent: by its general rules, protobuf reads them as base64."""
    text = base64.b64encode(read).decode()
    assert len(text) == digits
    assert int(text, 16), "an id of zeros says that there is none"
    assert text == text.lower()
    return text


def _attributes(pairs: Iterable[KeyValue]) -> JsonObject:
    pairs = list(pairs)
    found = {pair.key: _value(pair.value) for pair in pairs}
    assert len(found) == len(pairs), "a key comes twice"
    return found


def _value(value: AnyValue) -> Any:
    if value.HasField("array_value"):
        return [_value(item) for item in value.array_value.values]
    if value.HasField("kvlist_value"):
        return _attributes(value.kvlist_value.values)
    held = getattr(value, str(value.WhichOneof("value")))
    assert not isinstance(held, float) or math.isfinite(held) or math.isnan(held)
    return held


def _without_empty(value: Any) -> Any:
    """Protobuf leaves empty lists and texts out when it writes."""
    if isinstance(value, dict):
        pairs = {key: _without_empty(each) for key, each in value.items()}
        return {key: each for key, each in pairs.items() if each not in ([], "", {}, None)}
    return [*map(_without_empty, value)] if isinstance(value, list) else value
