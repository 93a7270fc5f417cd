"""A trace as OTLP/JSON, the JSON form of OpenTelemetry's protocol, and as Prompty's own `.tracy`
file (§3).
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan

from .._version import __version__
from ..history.events import NANOSECONDS
from ..json_types import JsonObject, JsonView
from ..private_files import write_private
from ..redaction import REDACTED, is_secret_name
from .describe import content_of, operation, problem, tokens
from .text import SpanNode, tree, walk

_IDS = ("traceId", "spanId", "parentSpanId")


def to_otlp_json(spans: Sequence[ReadableSpan]) -> JsonObject:
    """Return the spans as an `ExportTraceServiceRequest`, by resource and scope.

    Ids are hexadecimal. Times and integers are strings, since JSON numbers have 53 bits. Kinds and
    status codes are numbers. A span with an unknown end has no `endTimeUnixNano`. Never raises.
    """
    made: JsonObject = MessageToDict(encode_spans(spans), use_integers_for_enums=True)
    spans_made = [
        span
        for resource in made.get("resourceSpans", ())
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    for each in [*spans_made, *(link for span in spans_made for link in span.get("links", ()))]:
        each |= {id: b64decode(each[id]).hex() for id in _IDS if id in each}
    return made


SUFFIX = ".tracy"
_USAGE = "gen_ai.usage."
_INPUTS = {
    "gen_ai.system_instructions": "system",
    "gen_ai.input.messages": "messages",
    "gen_ai.tool.call.arguments": "arguments",
}
_RESULTS = {"gen_ai.output.messages": "messages", "gen_ai.tool.call.result": "result"}
_UNFIT = re.compile(r"[^\w.-]+", re.ASCII)


def to_tracy(spans: Sequence[ReadableSpan]) -> JsonObject:
    """Return the file's value, without strings under names of secrets."""
    return {"runtime": "python", "version": __version__, "trace": _frames(tree(spans)[0])}


def tracy_name(spans: Sequence[ReadableSpan]) -> str:
    """Return the file name by the specification: the root span's name and end."""
    root = tree(spans)[0].span
    end = datetime.fromtimestamp((root.end_time or root.start_time or 0) / NANOSECONDS, UTC)
    return f"{_UNFIT.sub('_', root.name).strip('._') or 'trace'}.{end:%Y%m%d.%H%M%S}{SUFFIX}"


def write_tracy(spans: Sequence[ReadableSpan], path: Path) -> Path:
    """Write the file and return its path; in a folder, the file gets its name by the specification.

    Raises OSError if it can't be written.
    """
    value = to_tracy(spans)
    file = path / tracy_name(spans) if path.is_dir() else path
    write_private(file, json.dumps(value, ensure_ascii=False, indent=2))
    return file


def _frames(root: SpanNode) -> JsonObject:
    """Return the frame of a span, with the frames below it and their total tokens."""
    nodes = [node for _, node in walk([root])]
    made = {id(node): _frame(node.span) for node in nodes}
    for node in reversed(nodes):
        frame = made[id(node)]
        below = [made[id(child)] for child in node.children]
        if below:
            frame["__frames"] = below
        used: dict[str, float] = {}
        for usage in [*(child.get("__usage", {}) for child in below), _own_usage(frame)]:
            for name, count in usage.items():
                used[name] = used.get(name, 0) + count
        if used:
            frame["__usage"] = used
    return made[id(root)]


def _frame(span: ReadableSpan) -> JsonObject:
    start = span.start_time or 0
    end = span.end_time if span.end_time is not None else start
    attributes = dict(span.attributes or {})
    inputs, result = _pop_values(attributes, _INPUTS), _pop_values(attributes, _RESULTS)
    usage = {
        name.removeprefix(_USAGE): attributes.pop(name)
        for name in list(attributes)
        if name.startswith(_USAGE)
    }
    if counted := tokens(span):
        usage["total_tokens"] = sum(
            counted
        )  # Without a total, viewers add up all counts, also partial ones.
    # An agent's figures are the sum of those below it, which this function adds up anyway.
    if usage and operation(span) != "invoke_agent":
        result["usage"] = usage
    if wrong := problem(span):
        kind = attributes.get("error.type") or "error"
        result["exception"] = {"type": kind, "message": span.status.description or wrong}
    return {
        "name": span.name,
        "__time": {
            "start": _time(start),
            "end": _time(end),
            "duration": (end - start) // 1_000_000,
        },
        "signature": f"perdure.{operation(span)}",
        "inputs": inputs,
        "result": result,
        "attributes": _clean(attributes),
    }


def _pop_values(attributes: JsonObject, names: Mapping[str, str]) -> JsonObject:
    """Remove the attributes of these names, which are JSON, and return them under shorter names."""
    return {
        short: _clean(content_of(attributes.pop(name)))
        for name, short in names.items()
        if name in attributes
    }


def _own_usage(frame: JsonView) -> dict[str, float]:
    usage = frame["result"].get("usage", {})
    return {name: count for name, count in usage.items() if isinstance(count, (int, float))}


def _clean(value: Any, name: str = "") -> Any:
    """Return the value in plain JSON, without strings under names of secrets."""
    match value:
        case str():
            return REDACTED if is_secret_name(name) else value
        case Mapping():
            return {str(key): _clean(child, str(key)) for key, child in value.items()}
        case Sequence():
            return [_clean(child, name) for child in value]
        case _:
            return value


def _time(nanoseconds: int) -> str:
    """Format a time as Prompty does, in UTC, with all digits, which floats would lose."""
    moment = datetime.fromtimestamp(nanoseconds // NANOSECONDS, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds % NANOSECONDS // 1000:06d}"
