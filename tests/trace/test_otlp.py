"""OTLP/JSON, read by a strict receiver."""

from __future__ import annotations

import json
import math

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Link, SpanContext

from perdure.trace.otlp import to_otlp_json

from ..support.made_traces import RESOURCE, SCOPE, START, a_refund
from ..support.otlp_receiver import Received, receive


def received(spans: list[ReadableSpan]) -> list[Received]:
    return receive(json.dumps(to_otlp_json(spans), allow_nan=False))


def test_a_strict_receiver_reads_every_span_back() -> None:
    spans = a_refund()
    root, first, *_ = found = received(spans)
    assert [span.name for span in found] == [span.name for span in spans]
    assert (root.trace_id, root.id, root.parent) == (
        "0af7651916cd43dd8448eb211c80319c",
        "0000000000001001",
        "",
    )
    assert (first.parent, first.kind, first.start) == (root.id, 3, START + 100_000_000)
    assert first.attributes["gen_ai.usage.input_tokens"] == 1200
    assert root.events == [("steering", START + 6_000_000_000, {"by": "Ann"})]
    failed = found[-1]
    assert (failed.status, failed.message) == (2, "overloaded happened")
    assert failed.attributes["error.type"] == "overloaded"
    assert {(span.resource["service.name"], span.scope) for span in found} == {
        ("perdure", "perdure")
    }


def test_values_of_every_type_arrive_as_they_are() -> None:
    span = ReadableSpan(
        "chat odd",
        context=SpanContext(7, 8, is_remote=False),
        resource=RESOURCE,
        instrumentation_scope=SCOPE,
        attributes={
            "yes": True,
            "large": 2**62 + 1,
            "part": 0.5,
            "none": math.nan,
            "many": ("a", "b"),
            "numbers": (1, 2),
            "text": '"quotes" \u2028',
        },
        links=[Link(SpanContext(9, 10, is_remote=True))],
        start_time=START,
        end_time=None,
    )
    [found] = received([span])
    assert math.isnan(found.attributes.pop("none"))
    assert found.attributes == {
        key: _listed(value) for key, value in (span.attributes or {}).items() if key != "none"
    }
    assert found.links == [f"{9:032x}{10:016x}"]
    assert found.end is None, "a span that has not ended has no end"


def _listed(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
