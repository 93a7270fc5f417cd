"""Turns an HTTP answer into a tool result."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

from ...charsets import charset_in
from ...messages import AudioPart, FilePart, ImagePart, Part, ToolResult
from ...redaction import REDACTED
from ..refusals import was_refused
from .http import HttpAnswer
from .operation import Operation

MAX_READ_BYTES = 4 * 2**20
"""Of one answer, unpacked. The limits of tool results, which are lower, cut what is shown to the model."""
MAX_EXCERPT = 4000
"""Characters of an error's body."""
_SHORTEST_SECRET = 4
_TEXT = ("json", "xml", "yaml", "javascript", "x-www-form-urlencoded", "graphql", "csv")


def result_of(answer: HttpAnswer, operation: Operation, name: str, secrets: Iterable[str]) -> ToolResult:
    """The result of a call: the body of a success, and what an error says. Keys that were sent are not in it."""
    clean = _without(secrets)
    if not 200 <= answer.status < 300:
        unknown = not was_refused(answer.status, answer.headers)
        text = clean(_refusal(answer, operation))
        return failure(name, text, kind=f"http_{answer.status}", outcome_unknown=unknown)
    if not answer.body:
        return ToolResult.of_text(clean(_bare(answer)))
    if not _is_text(answer):
        return _media_result(answer, name)
    text = _text(answer)
    if "json" in answer.media and answer.is_whole and not _is_json(text):
        shown = text[:MAX_EXCERPT]
        text = clean(f"{operation.title} answered what is no JSON: {shown}")
        return failure(name, text, kind="nonsense", outcome_unknown=True)
    if not answer.is_whole:
        text += f"\n[… the answer is longer than {MAX_READ_BYTES:,} bytes: no more was read …]"
    return ToolResult.of_text(clean(text))


def failure(name: str, text: str, *, kind: str, outcome_unknown: bool = False) -> ToolResult:
    """A result that tells the model what went wrong, in the words of all tools."""
    text = f"Error: Tool '{name}' failed: {text}"
    return ToolResult.failure(text, kind=kind, outcome_unknown=outcome_unknown)


def _refusal(answer: HttpAnswer, operation: Operation) -> str:
    said = f"{operation.title} answered {answer.status} {answer.reason}".strip()
    body = _text(answer).strip() if _is_text(answer) else f"({len(answer.body):,} bytes of {answer.media})"
    if len(body) > MAX_EXCERPT:
        body = body[:MAX_EXCERPT] + " …"
    return f"{said}: {body}" if body else said


def _bare(answer: HttpAnswer) -> str:
    """What an answer without a body says."""
    location = answer.headers.get("location")
    said = f"{answer.status} {answer.reason}".strip()
    return f"{said}, location: {location[:1000]}" if location else said


def _media_result(answer: HttpAnswer, name: str) -> ToolResult:
    if not answer.is_whole:
        text = f"the answer is {answer.media} of more than {MAX_READ_BYTES:,} bytes, which is too large for a result"
        return failure(name, text, kind="too_large", outcome_unknown=True)
    fields: dict[str, Any] = {
        "source": base64.b64encode(answer.body).decode(),
        "mediaType": answer.media[:200] or "application/octet-stream",
    }
    kinds: dict[str, type[Part]] = {"image": ImagePart, "audio": AudioPart}
    kind: Any = kinds.get(answer.media.partition("/")[0], FilePart)
    return ToolResult(parts=[kind.model_validate(fields)])


def _is_text(answer: HttpAnswer) -> bool:
    if not answer.media:
        return b"\0" not in answer.body[:1024]
    return answer.media.startswith("text/") or any(kind in answer.media for kind in _TEXT)


def _text(answer: HttpAnswer) -> str:
    return answer.body.decode(charset_in(str(answer.headers.get("content-type", ""))), errors="replace")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _without(secrets: Iterable[str]) -> Any:
    """A function that takes the keys out of a text."""
    known = sorted({each for each in secrets if len(each) >= _SHORTEST_SECRET}, key=len, reverse=True)

    def clean(text: str) -> str:
        for each in known:
            text = text.replace(each, REDACTED)
        return text

    return clean
