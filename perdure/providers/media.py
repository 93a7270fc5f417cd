"""Reads the source of an image, audio or file part: a URL, a `data:` URI or bare base64 (§6.1, §7).

What the OpenAI APIs accept: https://platform.openai.com/docs/guides/images-vision and
https://platform.openai.com/docs/guides/audio. No function here raises.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..messages import AudioPart, FilePart, ImagePart

_DATA_URI = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_AUDIO_FORMATS = {"x-wav": "wav", "wave": "wav", "mpeg": "mp3"}


class Base64Data(NamedTuple):
    media_type: str | None
    data: str


def base64_data(part: ImagePart | AudioPart | FilePart) -> Base64Data | None:
    """The part's bytes in base64; None when the source is a URL."""
    found = _DATA_URI.match(part.source)
    if found:
        return Base64Data(found[1] or part.media_type, part.source[found.end() :])
    return None if _SCHEME.match(part.source) else Base64Data(part.media_type, part.source)


def as_url(part: ImagePart | FilePart) -> str:
    """The source as a URL: unchanged, except that bare base64 of a known media type becomes a `data:` URI."""
    if part.media_type and not _SCHEME.match(part.source):
        return f"data:{part.media_type};base64,{part.source}"
    return part.source


def input_audio(part: AudioPart) -> dict[str, str]:
    """`{data, format}` as both OpenAI APIs require it; the format is `wav` when the media type is unknown."""
    content = base64_data(part)
    media_type = (content.media_type if content else part.media_type) or "audio/wav"
    subtype = media_type.partition("/")[2].partition(";")[0] or media_type
    return {"data": content.data if content else part.source, "format": _AUDIO_FORMATS.get(subtype, subtype)}
