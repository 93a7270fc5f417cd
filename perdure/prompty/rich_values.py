"""Rich inputs (threads, images, audio, files): the nonces that stand for them, and what replaces those (§5, §6)."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import ValidationError

from ..agent import Agent
from ..errors import RenderError
from ..messages import AudioPart, FilePart, ImagePart, Message, Part, Role, TextPart

MEDIA: Mapping[str, type[ImagePart | AudioPart | FilePart]] = {
    "image": ImagePart,
    "audio": AudioPart,
    "file": FilePart,
}
SOURCES = ("source", "value", "url")
_NONCE = re.compile(r"__PROMPTY_THREAD_[0-9a-f]+_(.*)__", re.DOTALL)


def new_nonce(name: str) -> str:
    """A string that no input can guess, to stand for the rich input of that name (§18-4)."""
    return f"__PROMPTY_THREAD_{secrets.token_hex(4)}_{name}__"


def nonce_name(nonce: str) -> str:
    """The name of the input that a nonce stands for; anything else is returned as it is."""
    match = _NONCE.fullmatch(nonce)
    return match[1] if match else nonce


class Section(NamedTuple):
    """One message's role, metadata and text, in which nonces stand for rich inputs."""

    role: Role
    metadata: dict[str, Any]
    text: str

    def message(self, parts: list[Part]) -> Message:
        """A message of this role with these parts in place of the text."""
        return Message.model_construct(role=self.role, parts=parts, metadata=dict(self.metadata))


@dataclass
class RichValues:
    """What replaces each nonce."""

    threads: dict[str, list[Message]] = field(default_factory=dict)
    media: dict[str, list[Part]] = field(default_factory=dict)

    @classmethod
    def of(cls, agent: Agent, rich: Mapping[str, Any]) -> RichValues:
        """Sort the values by the kinds of the agent's inputs; a thread that is not a list of messages is left out.

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
        """The section as one message with its media in place, or as several where threads divide it (§18-22)."""
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
    """The messages of a thread; None when the value is not a list of messages.

    A message is a Message, or a map of `role`, `content` or `parts`, and metadata: `metadata` and every other key.
    Raises RenderError for a map that is not a valid message.
    """
    if isinstance(value, Mapping) and "messages" in value:
        value = value["messages"]
    if not isinstance(value, list | tuple) or not all(_looks_like_message(item) for item in value):
        return None
    return [_message(name, index, item) for index, item in enumerate(value)]


def media_parts(name: str, kind: str, value: Any) -> list[Part]:
    """The parts of an image, audio or file input.

    The value is a URL, a `data:` URI or base64 text, a map of `source`, `mediaType` and, for images, `detail`, a part,
    or a list of these. Raises RenderError when it is none of them. No file is read: see `with_media_read`.
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
        raise RenderError(f"input {name!r}: expected {kind} data as a string or a map with `source`") from None


def _looks_like_message(item: Any) -> bool:
    return isinstance(item, Message) or (isinstance(item, Mapping) and "role" in item)


def _message(name: str, index: int, item: Message | Mapping[str, Any]) -> Message:
    if isinstance(item, Message):
        return item
    content = item.get("parts", item.get("content"))
    others = {key: value for key, value in item.items() if key not in ("role", "content", "parts", "metadata")}
    metadata = {**(item.get("metadata") or {}), **others}
    try:
        return Message.model_validate({"role": item["role"], "parts": content or [], "metadata": metadata})
    except ValidationError as error:
        detail = error.errors()[0]
        place = ".".join(str(step) for step in detail["loc"])
        raise RenderError(f"input {name!r}: message {index}: {place}: {detail['msg']}") from None
