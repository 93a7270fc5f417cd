"""Rich inputs (threads, images, audio, files): read from paths and bytes, and replaced by nonces
(§5, §6).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, NamedTuple

from pydantic import ValidationError

from ..agents import Agent
from ..errors import RenderError
from ..json_types import JsonObject, JsonView
from ..media import source_problem
from ..messages import AudioPart, FilePart, ImagePart, Message, Part, Role, TextPart

Media = ImagePart | AudioPart | FilePart
MEDIA: Mapping[str, type[Media]] = {
    "image": ImagePart,
    "audio": AudioPart,
    "file": FilePart,
}
SOURCES = ("source", "value", "url")
_NONCE = re.compile(r"__PROMPTY_THREAD_[0-9a-f]+_(.*)__", re.DOTALL)


def new_nonce(name: str) -> str:
    """Return a string that no input can guess, as a placeholder for the rich input of that name
    (§18-4).
    """
    return f"__PROMPTY_THREAD_{secrets.token_hex(4)}_{name}__"


def nonce_name(nonce: str) -> str:
    """Return the name of the input behind a nonce; anything else is returned unchanged."""
    match = _NONCE.fullmatch(nonce)
    return match[1] if match else nonce


class Section(NamedTuple):
    """One message's role, metadata and text, with nonces for rich inputs."""

    role: Role
    metadata: JsonObject
    text: str

    def message(self, parts: list[Part]) -> Message:
        """Return a message of this role with these parts instead of the text."""
        return Message.model_construct(role=self.role, parts=parts, metadata=dict(self.metadata))


@dataclass
class RichValues:
    """The values that replace the nonces."""

    threads: dict[str, list[Message]] = field(default_factory=dict)
    media: dict[str, list[Part]] = field(default_factory=dict)

    @classmethod
    def of(cls, agent: Agent, rich: JsonView) -> RichValues:
        """Sort the values by the kinds of the agent's inputs; a thread that is not a list of
        messages is left out.

        Raises RenderError for a value of the wrong form.
        """
        kinds = {prop.name: prop.kind for prop in agent.inputs or []}
        values = cls()
        for nonce, value in rich.items():
            name = nonce_name(nonce)
            kind = kinds.get(name, "thread")
            if kind in MEDIA:
                values.media[nonce] = media_parts(name, kind, value)
            elif (messages := thread_messages(name, value)) is not None:
                values.threads[nonce] = messages
        return values

    def fill(self, section: Section) -> Iterator[Message]:
        """Yield the section as one message with its media in place, or as several if threads divide
        it (§18-22).
        """
        nonces = "|".join(re.escape(nonce) for nonce in (*self.threads, *self.media))
        pieces = re.split(f"({nonces})", section.text) if nonces else [section.text]
        if len(pieces) == 1:
            yield section.message([TextPart(value=section.text)])
            return
        parted = any(piece in self.threads for piece in pieces)
        parts: list[Part] = []
        for piece in pieces:
            if piece in self.threads:
                yield from [section.message(parts)] if parts else []
                yield from self.threads[piece]
                parts = []
            elif piece in self.media:
                parts += self.media[piece]
            elif piece.strip():
                parts.append(TextPart(value=piece.strip() if parted else piece.strip("\r\n")))
        if parts or not parted:
            yield section.message(parts or [TextPart(value="")])


def thread_messages(name: str, value: Any) -> list[Message] | None:
    """Return the messages of a thread; None if the value is not a list of messages.

    A message is a Message, or a map of `role`, `content` or `parts`, and metadata: `metadata` and
    every other key. Raises RenderError for a map that is not a valid message.
    """
    if isinstance(value, Mapping) and "messages" in value:
        value = value["messages"]
    if not isinstance(value, list | tuple) or not all(_looks_like_message(item) for item in value):
        return None
    return [_message(name, index, item) for index, item in enumerate(value)]


def media_parts(name: str, kind: str, value: Any) -> list[Part]:
    """Return the parts of an image, audio or file input.

    The value is a URL, a `data:` URI or base64 text, a map of `source`, `mediaType` and, for
    images, `detail`, a part, or a list of these. Raises RenderError for anything else. Reads no
    file: see `with_media_read`.
    """
    if isinstance(value, list | tuple):
        return [part for item in value for part in media_parts(name, kind, item)]
    part = MEDIA[kind]
    if isinstance(value, part):
        return [value]
    fields = dict(value) if isinstance(value, Mapping) else {"source": value}
    source = next((fields[key] for key in SOURCES if key in fields), None)
    try:
        return [part.model_validate({**fields, "kind": kind, "source": source})]
    except ValidationError:
        raise RenderError(
            f"input {name!r}: expected {kind} data as a string or a map with `source`"
        ) from None


def _looks_like_message(item: Any) -> bool:
    return isinstance(item, Message) or (isinstance(item, Mapping) and "role" in item)


def _message(name: str, index: int, item: Message | JsonView) -> Message:
    if isinstance(item, Message):
        return item
    content = item.get("parts", item.get("content"))
    others = {
        key: value
        for key, value in item.items()
        if key not in ("role", "content", "parts", "metadata")
    }
    metadata = {**(item.get("metadata") or {}), **others}
    try:
        return Message.model_validate(
            {"role": item["role"], "parts": content or [], "metadata": metadata}
        )
    except ValidationError as error:
        detail = error.errors()[0]
        place = ".".join(str(step) for step in detail["loc"])
        raise RenderError(f"input {name!r}: message {index}: {place}: {detail['msg']}") from None


def with_media_read(agent: Agent, inputs: JsonView | str) -> JsonObject:
    """Return the inputs, with those of kind image, file and audio as JSON; a text is the value of
    the only input.

    A `Path` and a file opened in binary mode are read. A text is a URL, a `data:` URI or base64.
    Raises RenderError for anything else, and for a file that can't be read; TypeError for a text
    alone if the agent has several such inputs.
    """
    if isinstance(inputs, str):
        inputs = {_only_input(agent): inputs}
    kinds = {prop.name: prop.kind for prop in agent.inputs or []}
    return {
        name: _given(name, kinds[name], value) if kinds.get(name) in MEDIA else value
        for name, value in inputs.items()
    }


def _only_input(agent: Agent) -> str:
    declared = [prop for prop in agent.inputs or [] if prop.kind != "thread"]
    for among in (declared, [prop for prop in declared if prop.required]):
        if len(among) == 1:
            return among[0].name
    names = ", ".join(prop.name for prop in declared) or "no inputs"
    raise TypeError(
        f"inputs: a text alone is for an agent with one input, and this one has {names}: give a "
        "mapping"
    )


def _given(name: str, kind: str, value: Any) -> Any:
    """Return the value of an input as JSON. Raises RenderError."""
    try:
        return _read(MEDIA[kind], value)
    except OSError as error:
        text = f"input {name!r}: the file can't be read ({error.strerror or error})"
        raise RenderError(text) from error
    except ValueError as error:
        raise RenderError(f"input {name!r}: {error}") from error


def _read(kind: type[Media], value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_read(kind, item) for item in value]
    if isinstance(value, Mapping):
        return _read_map(kind, value)
    if isinstance(value, kind):
        part = value
    elif isinstance(value, bytes | bytearray | memoryview):
        part = kind.from_bytes(bytes(value))
    elif isinstance(value, PathLike) or hasattr(value, "read"):
        part = kind.from_file(value)
    else:
        if isinstance(value, str) and (problem := source_problem(value, is_given=True)):
            hint = f": give pathlib.Path({value!r}) for a file" if len(value) < 200 else ""
            raise ValueError(problem + hint)
        return value
    return part.model_dump(by_alias=True, exclude_none=True)


def _read_map(kind: type[Media], value: JsonView) -> JsonObject:
    """Return a map of `source` and the given attributes, which override those of the content."""
    source = next((key for key in SOURCES if key in value), None)
    if source is None:
        return dict(value)
    read = _read(kind, value[source])
    attributes = {key: each for key, each in value.items() if key != source}
    return {**(read if isinstance(read, dict) else {"source": read}), **attributes}
