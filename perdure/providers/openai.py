"""The common part of both OpenAI APIs: their SDK, their cache, and the forms of functions and
media.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence

from ..agents import PromptCache
from ..declared_tools import Property
from ..json_types import JsonObject
from ..messages import AudioPart, FilePart
from ..schema import STRICT_ANSWER, answer_schema
from .base import CallSeries, FunctionDefinition
from .prompt_cache import with_cache_key
from .tool_call_text import as_url, base64_data
from .wire_format import WireFormat

_AUDIO_FORMATS = {"x-wav": "wav", "wave": "wav", "mpeg": "mp3"}


class OpenAIFormat(WireFormat):
    """One of the two APIs."""

    imitated = "openai"

    def for_cache(
        self, request: JsonObject, chosen: PromptCache | None, series: CallSeries, *, is_own: bool
    ) -> JsonObject:
        return with_cache_key(request, chosen, series, is_own=is_own)


def function_fields(definition: FunctionDefinition) -> JsonObject:
    """Return the fields of a function's definition that are set."""
    return {key: value for key, value in definition._asdict().items() if value}


def schema_fields(outputs: Sequence[Property]) -> JsonObject:
    """Return the schema of an answer. Raises ValueError for a union without alternatives."""
    return {
        "name": "structured_output",
        "strict": True,
        "schema": answer_schema(outputs, STRICT_ANSWER),
    }


def file_data(part: FilePart) -> dict[str, str]:
    """`{filename, file_data}`, as both APIs require for a file that is not a URL."""
    content = base64_data(part)
    media_type = (content and content.media_type) or "application/pdf"
    name = part.filename or f"file{mimetypes.guess_extension(media_type) or ''}"
    return {"filename": name, "file_data": as_url(part, "application/pdf")}


def audio_item(part: AudioPart) -> JsonObject:
    """Return a recording as both APIs require; its format is `wav` if the media type is unknown."""
    content = base64_data(part)
    media_type = (content.media_type if content else part.media_type) or "audio/wav"
    subtype = media_type.partition("/")[2].partition(";")[0] or media_type
    data = content.data if content else part.source
    return {
        "type": "input_audio",
        "input_audio": {"data": data, "format": _AUDIO_FORMATS.get(subtype, subtype)},
    }
