"""Tool calls and media as every wire format reads and writes them: arguments as text (§9.5), URLs and base64."""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import UnsupportedMediaError
from ..media import Base64Data, base64_of, source_problem, told_type
from ..messages import AudioPart, FilePart, ImagePart, Message, Part, TextPart, ToolCall


class Call(NamedTuple):
    """A tool call of a message. Unlike a ToolCall, it is cheap to create for every message of a conversation."""

    id: str
    name: str
    arguments: str


def calls_of(message: Message) -> list[Call]:
    """Return the tool calls that an assistant message asks for; [] when there are none."""
    asked = message.metadata.get("tool_calls") or ()
    return [Call(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in asked]


def call_id(given: Any, index: int, response_id: Any) -> str:
    """Return the id of a call; derived from its place when the server gave none, so that its result can be matched."""
    return given if given and isinstance(given, str) else f"call_{index}_{str(response_id or '')[-12:]}"


NAMELESS = "Error: The call names no tool. Call the tool again, by its name"


def call_name(given: Any) -> str:
    """Return the name of a call; "" for anything that can't be one."""
    return given.strip() if isinstance(given, str) else ""


def asked_call(call: Call) -> ToolCall:
    """Return the call as the run has it; one without a name can't be made, and the model is told so."""
    return ToolCall(**call._asdict(), fault=None if call.name else NAMELESS)


def compact_json(value: Any) -> str:
    """JSON without blanks, as a message keeps a tool call's arguments (§8). Raises TypeError like `json.dumps`."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def arguments_text(arguments: Any) -> str:
    """Arguments as JSON text; some servers send an object instead. Raises TypeError like `json.dumps`."""
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else compact_json(arguments)


def only_text(parts: list[Part]) -> str | None:
    """Return the concatenated text when all parts are text; None when any is not."""
    if len(parts) == 1:
        return parts[0].value if isinstance(parts[0], TextPart) else None
    texts = [part.value for part in parts if isinstance(part, TextPart)]
    return "".join(texts) if len(texts) == len(parts) else None


Media = ImagePart | AudioPart | FilePart


class AcceptedMedia(NamedTuple):
    """Forms in which an API accepts one kind of media."""

    url: bool
    """Whether it fetches a URL itself."""
    types: tuple[str, ...] = ()
    """The beginnings of the media types that it takes; () for those that nobody has to list."""


AcceptedMediaTypes = Mapping[str, AcceptedMedia]
"""Kind of part → what an API takes of it. A kind that is absent is not taken at all."""

_AUDIO_FORMATS = {"x-wav": "wav", "wave": "wav", "mpeg": "mp3"}
_NAMES = {"image": "images", "audio": "audio", "file": "files"}
_INSTEAD = {
    "audio": "send its transcript, or choose a model that listens",
    "image": "describe it, or choose a model that sees",
    "file": "send its text, or choose another API",
}


def sendable_parts(message: Message, taken: AcceptedMediaTypes, api: str) -> list[Part]:
    """Return the parts of a message as the API, which `api` names in words, can be sent them.

    Of a tool's result, what can't be sent becomes a text that says so: the tool has done its work, and the run goes on.
    Raises UnsupportedMediaError for such a part of any other message.
    """
    problems = [None if isinstance(part, TextPart) else part_problem(part, taken, api) for part in message.parts]
    if not any(problems):
        return message.parts
    if message.role != "tool":
        raise UnsupportedMediaError(next(filter(None, problems)))
    return [
        part if problem is None else TextPart(value=f"[{part.kind}, not shown: {problem}]")
        for part, problem in zip(message.parts, problems, strict=True)
    ]


def part_problem(part: Media, taken: AcceptedMediaTypes, api: str) -> str | None:
    """Return why the API can't be sent this part; None when it can. Never raises."""
    if problem := source_problem(part.source):
        return f"{part.kind}: {problem}"
    if problem := kind_problem(part.kind, taken, api):
        return problem
    url, types = taken[part.kind]
    content = base64_data(part)
    if content is None:
        return None if url else f"{api} takes no URL of {_NAMES[part.kind]}: {_CONTENT}{_OR.get(part.kind, '')}"
    if types and content.media_type and not content.media_type.startswith(types):
        listed = ", ".join(f"{type}*" if type.endswith("/") else type for type in types)
        return f"{api} takes no {_NAMES[part.kind]} of type {content.media_type}: expected {listed}"
    return None


def kind_problem(kind: str, taken: AcceptedMediaTypes, api: str) -> str | None:
    """Return why the API can't be sent any part of this kind; None when it can. Never raises."""
    return None if kind in taken else f"{api} takes no {_NAMES[kind]}: {_INSTEAD[kind]}"


_CONTENT = "give the content itself, from Python as pathlib.Path, on the command line as NAME=@FILE"
_OR = {"file": ", or choose `apiType: responses`, which takes such URLs"}


def base64_data(part: Media) -> Base64Data | None:
    """Return the part's bytes in base64, with their type as far as that is known; None when the source is a URL."""
    found = base64_of(part.source, part.media_type)
    return found and found._replace(media_type=found.media_type or told_type(found.data))


def as_url(part: Media, unknown: str | None = None) -> str:
    """Return the source as a URL: unchanged, but for bare base64 of a known type, or else `unknown`: a `data:` URI."""
    content = base64_data(part)
    if content is None or part.source != content.data:
        return part.source
    media_type = content.media_type or unknown
    return f"data:{media_type};base64,{part.source}" if media_type else part.source


def file_data(part: FilePart) -> dict[str, str]:
    """`{filename, file_data}` as both OpenAI APIs require them of a file that is no URL."""
    content = base64_data(part)
    media_type = (content and content.media_type) or "application/pdf"
    name = part.filename or f"file{mimetypes.guess_extension(media_type) or ''}"
    return {"filename": name, "file_data": as_url(part, "application/pdf")}


def input_audio(part: AudioPart) -> dict[str, str]:
    """`{data, format}` as both OpenAI APIs require it; the format is `wav` when the media type is unknown."""
    content = base64_data(part)
    media_type = (content.media_type if content else part.media_type) or "audio/wav"
    subtype = media_type.partition("/")[2].partition(";")[0] or media_type
    return {"data": content.data if content else part.source, "format": _AUDIO_FORMATS.get(subtype, subtype)}
