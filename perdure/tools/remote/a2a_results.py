"""Turns a remote agent's messages and tasks into a tool result. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Any

from a2a.types import Message, Part, Role, Task, TaskState
from google.protobuf.json_format import MessageToDict

from ...messages import AudioPart, FilePart, ImagePart, TextPart, ToolResult
from ...messages import Part as ResultPart
from .settings import RemoteSettings

ENDED = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)
ASKING = frozenset({TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED})
_ERRORS = {
    TaskState.TASK_STATE_FAILED: ("agent_failed", "has failed"),
    TaskState.TASK_STATE_REJECTED: ("agent_rejected", "has rejected the task"),
    TaskState.TASK_STATE_CANCELED: ("cancelled", "has cancelled the task"),
    TaskState.TASK_STATE_INPUT_REQUIRED: ("input_required", "asks for input"),
    TaskState.TASK_STATE_AUTH_REQUIRED: ("auth_required", "asks for authentication"),
}


def state_name(task: Task) -> str:
    """Return the task's state in its usual form: `working`, `input-required`."""
    state = task.status.state
    known = state in TaskState.values()
    return (
        TaskState.Name(state).removeprefix("TASK_STATE_").lower().replace("_", "-")
        if known
        else f"state {state}"
    )


def is_at_rest(task: Task) -> bool:
    """Return whether the task makes no further progress by itself."""
    return task.status.state in ENDED | ASKING


def has_failed(task: Task) -> bool:
    """Return whether the task has ended without being completed."""
    return task.status.state in ENDED and task.status.state != TaskState.TASK_STATE_COMPLETED


def result_of_message(message: Message) -> ToolResult:
    """Return the result of an agent that answers at once, without a task. Raises as `result_of`."""
    if not message.parts:
        raise ValueError("a message without content")
    return ToolResult(parts=list(_parts(message.parts)))


def result_of(task: Task, settings: RemoteSettings) -> ToolResult:
    """Return the result of a task at rest: all its artifacts, and the agent's last message.

    If the task asks for input, the text explains how to answer, provided that a further call can.
    Raises ValueError, or an error of protobuf's JSON format, for content that can't be expressed.
    """
    made = [part for artifact in task.artifacts for part in _parts(artifact.parts)]
    said = list(_parts(task.status.message.parts))
    if task.status.state == TaskState.TASK_STATE_COMPLETED:
        if not made and not said:
            said = _last_words(task)
        return ToolResult(parts=made + [part for part in said if part not in made])
    kind, what = _ERRORS[task.status.state]
    words = "".join(part.value for part in said if isinstance(part, TextPart))
    advice = "" if settings.delegation else _advice(task)
    text = settings.failure_text(
        f"The agent {settings.name!r} {what}{words and f': {words}'}{advice}"
    )
    rest = [part for part in said if not isinstance(part, TextPart)]
    return ToolResult(
        parts=[TextPart(value=text), *rest, *made],
        status="cancelled" if kind == "cancelled" else "error",
        error_kind=kind,
        error_message=text,
    )


def _advice(task: Task) -> str:
    if task.status.state not in ASKING:
        return ""
    ids = {"context_id": task.context_id, "task_id": task.id}
    given = " and ".join(f"{name} {json.dumps(value)}" for name, value in ids.items() if value)
    return f"\n[To answer, call this tool again with {given}, and the answer as message.]"


def _last_words(task: Task) -> list[ResultPart]:
    said = [message for message in task.history if message.role == Role.ROLE_AGENT]
    return list(_parts(said[-1].parts)) if said else []


def _parts(parts: Iterable[Part]) -> Iterator[ResultPart]:
    """Yield the parts of one message or artifact; adjacent texts are pieces of one text."""
    pieces: list[str] = []
    for part in parts:
        if part.WhichOneof("content") == "text":
            pieces.append(part.text)
            continue
        if pieces:
            yield TextPart(value="".join(pieces))
            pieces = []
        yield _part(part)
    if pieces:
        yield TextPart(value="".join(pieces))


def _part(part: Part) -> ResultPart:
    match part.WhichOneof("content"):
        case "data":
            return TextPart(
                value=json.dumps(
                    _with_integers(MessageToDict(part.data)),
                    ensure_ascii=False,
                    separators=(",", ":"),
                )
            )
        case "raw":
            return _media(base64.b64encode(part.raw).decode(), part)
        case "url" if part.url.startswith(("https://", "http://")):
            return _media(part.url, part)
        case "url":
            return TextPart(value=f"[a file at {part.url}]")
        case _:
            return TextPart(value="")


def _with_integers(data: Any) -> Any:
    """Return the data with integral numbers as integers: the protocol has only floating-point
    ones.
    """
    match data:
        case dict():
            return {key: _with_integers(value) for key, value in data.items()}
        case list():
            return [_with_integers(value) for value in data]
        case float() if data.is_integer() and abs(data) < 2**53:
            return int(data)
        case _:
            return data


def _media(source: str, part: Part) -> ResultPart:
    media_type = part.media_type or "application/octet-stream"
    fields = {"source": source, "mediaType": media_type}
    if media_type.startswith("image/"):
        return ImagePart.model_validate(fields)
    if media_type.startswith("audio/"):
        return AudioPart.model_validate(fields)
    return FilePart.model_validate(
        {**fields, "filename": part.filename} if part.filename else fields
    )
