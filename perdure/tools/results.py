"""Turns a tool function's value into a tool result of bounded size (§6.1), and describes its
exceptions.

The operator reads the description in the worker's log, the model in the tool's result.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Sequence
from dataclasses import is_dataclass
from traceback import extract_tb
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from ..messages import AudioPart, FilePart, ImagePart, Part, TextPart, ToolResult
from ..protocol.later import CompletionToken
from ..redaction import get_logger
from ..text import cut_middle, utf8_bytes, valid_text
from ..tool_calls import PreparedRun
from ..tool_results import SHOWN_BYTES, SizeLimits, text_bytes
from .context import ToolContext, log_fields
from .kind import OutcomeUnknown

_PARTS = (TextPart, ImagePart, AudioPart, FilePart)
_JSON = (BaseModel, dict, list, tuple, set, frozenset)


MAX_PARTS = 1000
"""Maximum number of parts in one result."""
MAX_LABEL_BYTES = 4096
"""Limit for a part's data beyond its content: its media type, and fields unknown to this
version."""
_CONTENT = {"value", "source"}
MOST_PER_CHARACTER = 4
"""Bytes of UTF-8."""


def to_result(value: Any, limits: SizeLimits) -> ToolResult:
    """Return the result for a returned value: strings and message parts unchanged, structures as
    JSON, bytes as a file.

    A ToolResult is only bounded; a PreparedRun is not a result yet, nor is the token of
    `ToolContext.later`. Raises ValueError for a value without a JSON form or an invalid part, and
    other exceptions for parts with fields of the wrong type.
    """
    if isinstance(value, PreparedRun):
        return value
    if isinstance(value, CompletionToken):
        # The text is for a workflow that does not know such calls.
        text = "Error: another system was to finish this call, for which this run can't wait"
        return ToolResult(parts=[TextPart(value=text)], later=value.record)
    if isinstance(value, str):
        part = TextPart(value=value)
        if (
            len(part.value) * MOST_PER_CHARACTER <= limits.text_bytes
            and valid_text(part.value) == part.value
        ):
            return ToolResult(parts=[part])
        value = part
    if isinstance(value, ToolResult):
        return _bounded_copy(value, limits)
    return _bounded_copy(ToolResult.model_construct(parts=_parts(value)), limits)


def _bounded_copy(result: ToolResult, limits: SizeLimits) -> ToolResult:
    size, message_bytes = text_bytes(result.parts), min(limits.text_bytes, SHOWN_BYTES)
    bounded = ToolResult.model_construct(
        parts=_bounded_parts(result.parts, limits),
        status=result.status,
        error_kind=None
        if result.error_kind is None
        else cut_middle(result.error_kind, MAX_LABEL_BYTES),
        error_message=None
        if result.error_message is None
        else cut_middle(result.error_message, message_bytes),
        duration_ms=result.duration_ms,
        size=max(size, result.size or 0) if size > limits.text_bytes else result.size,
        outcome_unknown=result.outcome_unknown,
        later=result.later,
        needs=result.needs,
    )
    # Fields assigned after validation may contain anything: an unreadable value must not be
    # recorded.
    return ToolResult.model_validate_json(bounded.model_dump_json(by_alias=True, warnings=False))


def _parts(value: Any) -> list[Part]:
    if isinstance(value, _PARTS):
        return [value]
    if (
        isinstance(value, list | tuple)
        and value
        and all(isinstance(item, _PARTS) for item in value)
    ):
        return list(value)
    if isinstance(value, bytes | bytearray | memoryview):
        encoded = base64.b64encode(value).decode()
        return [
            FilePart.model_validate({"source": encoded, "mediaType": "application/octet-stream"})
        ]
    return [TextPart(value=_text(value))]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, _JSON) or (is_dataclass(value) and not isinstance(value, type)):
        plain = to_jsonable_python(value, bytes_mode="base64", fallback=str)
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    kind: Any = type(value)
    if (kind.__str__, kind.__repr__) == (object.__str__, object.__repr__):
        raise TypeError(
            f"it was executed, and returned an object of the class {kind.__name__}, which has no "
            "JSON form or text"
        )
    return str(value)


def _bounded_parts(parts: Sequence[Part], limits: SizeLimits) -> list[Part]:
    left = {"text": limits.text_bytes, "media": limits.media_bytes}
    kept: list[Part] = []
    omitted: list[int] = []
    for part in parts[:MAX_PARTS]:
        _check_label(part)
        pool, size = (
            ("text", utf8_bytes(part.value))
            if isinstance(part, TextPart)
            else ("media", len(part.source))
        )
        if isinstance(part, TextPart) and (size <= left[pool] or left[pool] > 0):
            text = cut_middle(part.value, left[pool])
            kept.append(part if text == part.value else TextPart(value=text))
        elif size <= left[pool]:
            kept.append(part)
        else:
            omitted.append(size)
        left[pool] = max(0, left[pool] - size)
    omitted += [0] * (len(parts) - MAX_PARTS)
    if omitted:
        notice = (
            f"[… {len(omitted)} more parts of {sum(omitted):,} bytes left out: over the limit for "
            "a tool result …]"
        )
        kept.append(TextPart(value=notice))
    return kept


def _check_label(part: Part) -> None:
    size = len(part.model_dump_json(by_alias=True, exclude=_CONTENT, warnings=False))
    if size > MAX_LABEL_BYTES:
        raise ValueError(
            f"the {part.kind} part has {size:,} bytes besides its content (mediaType and the "
            f"like): at most {MAX_LABEL_BYTES:,} are possible"
        )


_FOREIGN = (
    "is bound to a different event loop",
    "attached to a different loop",
    "Event loop is closed",
)
"""asyncio's error texts for an object of another event loop."""
_log = get_logger("perdure.tools")


def describe(error: BaseException) -> str:
    """Return the exception's type and text, such as `KeyError: 'nokey'`. Never raises."""
    kind = type(error).__name__
    try:
        return f"{kind}: {error}" if str(error) else kind
    except Exception:
        return kind


def with_advice(text: str) -> str:
    """Return an error's text, with advice if it concerns a client of another event loop."""
    if not any(words in text for words in _FOREIGN):
        return text
    return (
        f"{text}. Tools and guardrails run on an event loop of their own: open the client in the "
        "function that uses it, or pass the client's loop, create_worker(tool_loop=…)"
    )


class ResourceError(Exception):
    """A resource can't be opened; the text has its name and the reason."""


def log_raised(name: str, error: BaseException, context: ToolContext) -> None:
    """Log the tool's exception, with its traceback if no retry follows. Never raises."""
    again = context.retries_left and not isinstance(error, OutcomeUnknown)
    frames = extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    _log.log(
        logging.WARNING if again else logging.ERROR,
        "Tool %r raised %s%s%s%s",
        *(name, describe(error), place, _execution_text(context)),
        "; it is executed again" if again else "",
        exc_info=None if again or isinstance(error, ResourceError) else error,
        extra=log_fields(name, context),
    )


def log_timeout(name: str, seconds: float, context: ToolContext) -> None:
    """Log that the tool was abandoned after these seconds."""
    _log.warning(
        "Tool %r timed out after %g s%s",
        *(name, seconds, _execution_text(context)),
        extra=log_fields(name, context),
    )


def _execution_text(context: ToolContext) -> str:
    return (
        f" (run {context.run_id}, call {context.call_id}, attempt {context.attempt})"
        if context.run_id
        else ""
    )
