"""Tool calls and media as every wire format reads and writes them: arguments as text (§9.5), URLs
and base64.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..errors import UnsupportedMediaError
from ..media import Base64Data, base64_of, source_problem, told_type
from ..messages import AudioPart, FilePart, ImagePart, Message, Part, TextPart


class Call(NamedTuple):
    """A tool call of a message. Unlike a ToolCall, it is cheap to create for every message of a
    conversation.
    """

    id: str
    name: str
    arguments: str


def calls_of(message: Message) -> list[Call]:
    """Return the tool calls of an assistant message; [] if there are none."""
    asked = message.metadata.get("tool_calls") or ()
    return [
        Call(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in asked
    ]


def read_calls(asked: Iterable[tuple[Any, Any, Any]], response_id: Any) -> list[Call]:
    """Return the calls of a response; `asked` holds the server's id, the name and the arguments of
    each, unchanged.

    A call without an id gets one derived from its place, so that its result can be matched; the
    name is "" for anything that is not a name. Raises TypeError for arguments that are not JSON.
    """
    return [
        Call(
            id if id and isinstance(id, str) else f"call_{index}_{str(response_id or '')[-12:]}",
            name.strip() if isinstance(name, str) else "",
            arguments_text(arguments),
        )
        for index, (id, name, arguments) in enumerate(asked)
    ]


def compact_json(value: Any) -> str:
    """JSON without whitespace, the form of a tool call's arguments in a message (§8). Raises
    TypeError like `json.dumps`.
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def arguments_text(arguments: Any) -> str:
    """Arguments as JSON text; some servers send an object instead. Raises TypeError like
    `json.dumps`.
    """
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else compact_json(arguments)


def only_text(parts: list[Part]) -> str | None:
    """Return the concatenated text if all parts are text; None otherwise."""
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
    """The prefixes of the accepted media types; () if all are accepted."""


AcceptedMediaTypes = Mapping[str, AcceptedMedia]
"""Kind of part → the forms that an API accepts. A kind that is absent is not accepted."""

_NAMES = {"image": "images", "audio": "audio", "file": "files"}
_INSTEAD = {
    "audio": "send its transcript, or choose a model that listens",
    "image": "describe it, or choose a model that sees",
    "file": "send its text, or choose another API",
}


def sendable_parts(message: Message, taken: AcceptedMediaTypes, api: str) -> list[Part]:
    """Return the parts of a message that the API can take; `api` is its name in messages.

    In a tool's result, a text replaces a part that can't be sent: the tool has done its work, and
    the run goes on. Raises UnsupportedMediaError for such a part of any other message.
    """
    problems = [
        None if isinstance(part, TextPart) else part_problem(part, taken, api)
        for part in message.parts
    ]
    if not any(problems):
        return message.parts
    if message.role != "tool":
        raise UnsupportedMediaError(next(filter(None, problems)))
    return [
        part if problem is None else TextPart(value=f"[{part.kind}, not shown: {problem}]")
        for part, problem in zip(message.parts, problems, strict=True)
    ]


def part_problem(part: Media, taken: AcceptedMediaTypes, api: str) -> str | None:
    """Return why the API can't take this part; None if it can. Never raises."""
    if problem := source_problem(part.source):
        return f"{part.kind}: {problem}"
    if problem := kind_problem(part.kind, taken, api):
        return problem
    url, types = taken[part.kind]
    content = base64_data(part)
    if content is None:
        return (
            None
            if url
            else (
                f"{api} does not accept a URL of {_NAMES[part.kind]}: "
                f"{_CONTENT}{_OR.get(part.kind, '')}"
            )
        )
    if types and content.media_type and not content.media_type.startswith(types):
        listed = ", ".join(f"{type}*" if type.endswith("/") else type for type in types)
        return (
            f"{api} does not accept {_NAMES[part.kind]} of type {content.media_type}: expected "
            f"{listed}"
        )
    return None


def kind_problem(kind: str, taken: AcceptedMediaTypes, api: str) -> str | None:
    """Return why the API can't take any part of this kind; None if it can. Never raises."""
    return None if kind in taken else f"{api} does not accept {_NAMES[kind]}: {_INSTEAD[kind]}"


_CONTENT = "give the content itself, from Python as pathlib.Path, on the command line as NAME=@FILE"
_OR = {"file": ", or choose `apiType: responses`, which accepts such URLs"}


def base64_data(part: Media) -> Base64Data | None:
    """Return the part's bytes in base64, with their type if it is known; None if the source is a
    URL.
    """
    found = base64_of(part.source, part.media_type)
    return found and found._replace(media_type=found.media_type or told_type(found.data))


def as_url(part: Media, unknown: str | None = None) -> str:
    """Return the source as a URL: unchanged, except that bare base64 of a known type, or else
    `unknown`, becomes a `data:` URI.
    """
    content = base64_data(part)
    if content is None or part.source != content.data:
        return part.source
    media_type = content.media_type or unknown
    return f"data:{media_type};base64,{part.source}" if media_type else part.source
