"""Traces made by hand, of any size, for tests of the forms in which a trace leaves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

START = 1_790_000_000_123_456_789
TRACE_ID = 0x0AF7651916CD43DD8448EB211C80319C
RESOURCE = Resource({"service.name": "perdure"})
SCOPE = InstrumentationScope("perdure", "0.0")


class Made:
    """A trace to which spans are added; times are seconds from its start."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def add(
        self,
        name: str,
        start: float,
        end: float | None,
        parent: ReadableSpan | None = None,
        *,
        error: str | None = None,
        events: Mapping[float, str] | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        **attributes: Any,
    ) -> ReadableSpan:
        """A span; two underscores are a dot in an attribute's name, and a value that is no scalar
        becomes JSON.
        """
        told = {
            "gen_ai__operation__name": name.partition(" ")[0],
            **attributes,
            **({"error__type": error} if error else {}),
        }
        span = ReadableSpan(
            name,
            context=_context(len(self.spans) + 1),
            parent=parent.context if parent else None,
            resource=RESOURCE,
            instrumentation_scope=SCOPE,
            attributes={key.replace("__", "."): _scalar(value) for key, value in told.items()},
            events=[Event(text, {"by": "Ann"}, _at(time)) for time, text in (events or {}).items()],
            kind=kind,
            status=Status(StatusCode.ERROR, f"{error} happened") if error else Status(),
            start_time=_at(start),
            end_time=None if end is None else _at(end),
        )
        self.spans.append(span)
        return span

    def chat(
        self, start: float, end: float, parent: ReadableSpan, **attributes: Any
    ) -> ReadableSpan:
        """A model call with 1,200 tokens in and 85 out."""
        used = {"gen_ai__usage__input_tokens": 1200, "gen_ai__usage__output_tokens": 85}
        return self.add(
            "chat gpt-4o", start, end, parent, kind=SpanKind.CLIENT, **{**used, **attributes}
        )


def a_refund(nasty: str = "") -> list[ReadableSpan]:
    """A run with a retry, a sub-agent, a failed tool, a wait of two days for a person, and
    content.
    """
    made = Made()
    root = made.add(
        "invoke_agent dispute_resolver",
        0,
        184_000,
        events={6.0: "steering"},
        gen_ai__agent__name="dispute_resolver",
    )
    question = {
        "role": "user",
        "parts": [_text(f"Customer 4417 was charged twice for order 88213. Why? {nasty}")],
    }
    system = [_text("You resolve disputes about payments.")]
    plan = {
        "role": "assistant",
        "parts": [_text("I look at the order first."), _call("c1", "find_order", {"id": 88213})],
    }
    made.chat(
        0.1,
        2.0,
        root,
        perdure__iteration=1,
        gen_ai__system_instructions=system,
        gen_ai__input__messages=[question],
        gen_ai__output__messages=[{**plan, "finish_reason": "tool_call"}],
    )
    made.add(
        "execute_tool find_order",
        2.0,
        2.21,
        root,
        gen_ai__tool__call__arguments={"id": 88213, "api_key": "k-12345"},
        gen_ai__tool__call__result=f"order found {nasty}",
    )
    made.add(
        "execute_tool list_charges",
        2.0,
        2.34,
        root,
        gen_ai__tool__call__result="\n".join(f"charge {n}" for n in range(40)),
    )
    made.add("retry rate_limit", 2.4, 14.4, root)
    result = {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": "c1", "response": "order found"}],
    }
    steering = {"role": "user", "parts": [_text("Refund one of the two charges only.")]}
    answer = {
        "role": "assistant",
        "parts": [_text("There are two captures, 0.9 s apart. \u202eevil")],
    }
    made.chat(
        14.4,
        16.8,
        root,
        perdure__iteration=2,
        gen_ai__input__messages=[question, plan, result, steering],
        gen_ai__output__messages=[answer],
    )
    tool = made.add(
        "execute_tool policy_reader",
        16.8,
        23.2,
        root,
        gen_ai__tool__call__arguments={"task": "Refund rules"},
    )
    child = made.add("invoke_agent policy_reader", 16.9, 23.1, tool)
    made.chat(17.0, 19.0, child, perdure__iteration=1)
    made.add("execute_tool search_policies", 19.0, 19.4, child, error="timeout")
    made.chat(19.5, 23.0, child, perdure__iteration=2)
    made.add("wait approval send_refund", 23.3, 183_900, root)
    made.add(
        "execute_tool send_refund",
        183_900,
        183_900.9,
        root,
        gen_ai__tool__call__arguments={"amount": 129.0},
    )
    made.chat(183_901, 183_999, root, perdure__iteration=3, error="overloaded")
    return made.spans


def _context(number: int) -> SpanContext:
    return SpanContext(TRACE_ID, 0x1000 + number, is_remote=False, trace_flags=TraceFlags(1))


def _at(seconds: float) -> int:
    return START + round(seconds * 1000) * 1_000_000


def _scalar(value: Any) -> Any:
    return value if isinstance(value, (str, int, float)) else json.dumps(value)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _call(id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": id, "name": name, "arguments": arguments}
