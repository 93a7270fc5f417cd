"""A trace as Prompty's own `.tracy` file, which its viewer opens (§3)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from .._version import __version__
from ..private_files import write_private
from ..redaction import REDACTED, is_secret_name
from .shown import NANO, content_of, operation, problem, tokens
from .tree import Node, tree, walk

SUFFIX = ".tracy"
_USAGE = "gen_ai.usage."
_INPUTS = {
    "gen_ai.system_instructions": "system",
    "gen_ai.input.messages": "messages",
    "gen_ai.tool.call.arguments": "arguments",
}
_RESULTS = {"gen_ai.output.messages": "messages", "gen_ai.tool.call.result": "result"}
_UNFIT = re.compile(r"[^\w.-]+", re.ASCII)


def to_tracy(spans: Sequence[ReadableSpan]) -> dict[str, Any]:
    """The file's value. Strings under a name that is one of secrets are not in it. Raises ValueError without spans.

    Where a trace has several roots, they are the frames of one that stands for the trace.
    """
    roots = tree(spans)
    if not roots:
        raise ValueError("there are no spans to write")
    root = roots[0] if len(roots) == 1 else Node(_around(roots), roots)
    return {"runtime": "python", "version": __version__, "trace": _frames(root)}


def tracy_name(spans: Sequence[ReadableSpan]) -> str:
    """The name that the specification gives the file: the root span's, and when that ended."""
    root = tree(spans)[0].span
    end = datetime.fromtimestamp((root.end_time or root.start_time or 0) / NANO, UTC)
    return f"{_UNFIT.sub('_', root.name).strip('._') or 'trace'}.{end:%Y%m%d.%H%M%S}{SUFFIX}"


def write_tracy(spans: Sequence[ReadableSpan], path: Path) -> Path:
    """Write the file and return its path; in a folder it gets the name that the specification gives it.

    Raises OSError when it can't be written, and ValueError without spans.
    """
    value = to_tracy(spans)
    file = path / tracy_name(spans) if path.is_dir() else path
    write_private(file, json.dumps(value, ensure_ascii=False, indent=2))
    return file


def _frames(root: Node) -> dict[str, Any]:
    """The frame of a span, with those of the spans below it, and the tokens that all of them have used."""
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


def _frame(span: ReadableSpan) -> dict[str, Any]:
    start = span.start_time or 0
    end = span.end_time if span.end_time is not None else start
    attributes = dict(span.attributes or {})
    inputs, result = _taken(attributes, _INPUTS), _taken(attributes, _RESULTS)
    usage = {name.removeprefix(_USAGE): attributes.pop(name) for name in list(attributes) if name.startswith(_USAGE)}
    if counted := tokens(span):
        usage["total_tokens"] = sum(counted)  # Without it, viewers add up all counts, also those of parts.
    # An agent's own figures are the sum of those below it, which are added up here anyway.
    if usage and operation(span) != "invoke_agent":
        result["usage"] = usage
    if wrong := problem(span):
        kind = attributes.get("error.type") or "error"
        result["exception"] = {"type": kind, "message": span.status.description or wrong}
    return {
        "name": span.name,
        "__time": {"start": _time(start), "end": _time(end), "duration": (end - start) // 1_000_000},
        "signature": f"perdure.{operation(span)}",
        "inputs": inputs,
        "result": result,
        "attributes": _clean(attributes),
    }


def _taken(attributes: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The attributes of these names, which are JSON, under shorter ones; they are removed."""
    return {short: _clean(content_of(attributes.pop(name))) for name, short in names.items() if name in attributes}


def _own_usage(frame: Mapping[str, Any]) -> dict[str, float]:
    usage = frame["result"].get("usage", {})
    return {name: count for name, count in usage.items() if isinstance(count, (int, float))}


def _clean(value: Any, name: str = "") -> Any:
    """The value in plain JSON, without strings under a name that is one of secrets."""
    match value:
        case str():
            return REDACTED if is_secret_name(name) else value
        case Mapping():
            return {str(key): _clean(child, str(key)) for key, child in value.items()}
        case Sequence():
            return [_clean(child, name) for child in value]
        case _:
            return value


def _around(roots: Sequence[Node]) -> ReadableSpan:
    spans = [root.span for root in roots]
    return ReadableSpan(
        "trace",
        start_time=min(span.start_time or 0 for span in spans),
        end_time=max(span.end_time or span.start_time or 0 for span in spans),
    )


def _time(nanoseconds: int) -> str:
    """As Prompty writes it, in UTC; without a loss of the last digit, which floats would cost."""
    moment = datetime.fromtimestamp(nanoseconds // NANO, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds % NANO // 1000:06d}"
