"""Turns what an MCP tool has answered into a tool result: text, images, audio and resources become parts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from mcp import types

from ...excerpt import one_line
from ...messages import AudioPart, FilePart, ImagePart, Part, TextPart, ToolResult
from ...valid_text import valid_json, valid_text

TOOL_ERROR = "mcp_tool_error"
"""The kind of an error that the tool itself has reported."""

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What models take as an image: any other would make the provider refuse the whole conversation."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_MAX_MEDIA_TYPE = 200


def result_of(answer: types.CallToolResult, name: str) -> ToolResult:
    """The result for an answer; structured content is used when the answer has no text."""
    parts = [part for block in answer.content for part in _parts(block)]
    if answer.structured_content is not None and not any(
        isinstance(block, types.TextContent) for block in answer.content
    ):
        text = json.dumps(valid_json(answer.structured_content), ensure_ascii=False, separators=(",", ":"))
        parts.insert(0, TextPart(value=text))
    if not answer.is_error:
        return ToolResult(parts=parts or [TextPart(value="")])
    said = "".join([part.value for part in parts if isinstance(part, TextPart)])
    text = f"Error: Tool '{name}' failed: {said or 'its MCP server does not say why'}"
    others = [part for part in parts if not isinstance(part, TextPart)]
    return ToolResult(parts=[TextPart(value=text), *others], status="error", error_kind=TOOL_ERROR, error_message=text)


def _parts(block: types.ContentBlock) -> Iterator[Part]:
    match block:
        case types.TextContent():
            yield TextPart(value=valid_text(block.text))
        case types.ImageContent() | types.AudioContent():
            yield _media(block.data, block.mime_type, block.type)
        case types.ResourceLink():
            yield TextPart(value=_link(block))
        case types.EmbeddedResource(resource=types.TextResourceContents() as contents):
            yield TextPart(value=valid_text(f"[{one_line(contents.uri, 500)}]\n{contents.text}"))
        case types.EmbeddedResource(resource=types.BlobResourceContents() as contents):
            yield _media(contents.blob, contents.mime_type or "application/octet-stream", one_line(contents.uri, 500))


def _media(data: str, media_type: str, what: str) -> Part:
    kind = media_type.partition(";")[0].strip().lower()
    if len(media_type) > _MAX_MEDIA_TYPE or not kind or len(data) % 4 or not _BASE64.fullmatch(data):
        return TextPart(value=f"[{what} left out: it is no base64 of a known media type]")
    if kind in _IMAGES:
        return ImagePart.model_validate({"source": data, "mediaType": kind})
    if kind.startswith("audio/"):
        return AudioPart.model_validate({"source": data, "mediaType": kind})
    return FilePart.model_validate({"source": data, "mediaType": kind})


def _link(link: types.ResourceLink) -> str:
    """A link as text: the model reads what it points to with another tool, if the server has one."""
    about = ", ".join(filter(None, [link.mime_type, f"{link.size:,} bytes" if link.size is not None else ""]))
    described = f": {link.description}" if link.description else ""
    return valid_text(f"[Resource {link.title or link.name}, {link.uri}{f' ({about})' if about else ''}{described}]")
