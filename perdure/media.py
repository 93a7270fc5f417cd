"""Images, files and recordings: the source of their content, its type, and its form as text
(§6.1).
"""

from __future__ import annotations

import base64
import binascii
import mimetypes
import os
import re
import stat
from pathlib import PurePath
from typing import IO, NamedTuple

from .json_types import JsonObject

MAX_MEDIA_BYTES = 64 * 2**20
"""The limit of one image, file or recording. No provider accepts more."""
UNKNOWN_TYPE = "application/octet-stream"

_DATA_URI = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,", re.IGNORECASE)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/_\s-]++={0,2}+\s*+")
_MAGIC = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF8", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (0, b"BM", "image/bmp"),
    (0, b"II*\0", "image/tiff"),
    (0, b"MM\0*", "image/tiff"),
    (4, b"ftypheic", "image/heic"),
    (4, b"ftypavif", "image/avif"),
    (0, b"%PDF-", "application/pdf"),
    (8, b"WAVE", "audio/wav"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"\xff\xf3", "audio/mpeg"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    (4, b"ftypM4A", "audio/mp4"),
)
"""Offset, the bytes at it, and the type that they indicate."""
_SAME = {"audio/x-wav": "audio/wav", "audio/x-flac": "audio/flac", "audio/mp4a-latm": "audio/mp4"}


class Base64Data(NamedTuple):
    media_type: str | None
    data: str


def base64_of(source: str, media_type: str | None = None) -> Base64Data | None:
    """Return the content within a source; None for a URL. `media_type` is the separately given
    type. Never raises.
    """
    if found := _DATA_URI.match(source):
        return Base64Data(found[1] or media_type, source[found.end() :])
    return None if _is_url(source) else Base64Data(media_type, source)


def source_problem(source: str, *, is_given: bool = False) -> str | None:
    """Return why a source is neither a URL nor base64; None if it is one of them. Never raises.

    With `is_given`, a caller passes the source, so a short word is more likely a file's name than
    content.
    """
    shown = f"{source[:60]!r}{'…' if len(source) > 60 else ''}"
    if source[:5].lower() == "data:":
        found = _DATA_URI.match(source)
        if found and _BASE64.fullmatch(source, found.end()):
            return None
        return f"the data: URI {shown} has no base64: expected data:TYPE;base64,…"
    if source[:7].lower() == "file://":
        return f"{shown} is on one machine: give the file itself, from Python as pathlib.Path"
    if _is_url(source) or (is_base64(source) if is_given else _BASE64.fullmatch(source)):
        return None
    return f"{shown} is neither a URL nor base64"


def is_base64(text: str) -> bool:
    """Return whether the text may be content in base64, padded or not, standard or for URLs. Never
    raises.
    """
    if not _BASE64.fullmatch(text):
        return False
    length = len("".join(text.split()).rstrip("="))
    return (
        length > 1
        and length % 4 != 1
        and (length % 4 == 0 or text.rstrip().endswith("=") or length > 64)
    )


def media_type_of(content: bytes, name: str = "") -> str | None:
    """Return the type by the first bytes, else by the file's name; None if neither determines it.
    Never raises.
    """
    for offset, magic, told in _MAGIC:
        if content.startswith(magic, offset):
            return told
    guessed = mimetypes.guess_type(name)[0]
    return _SAME.get(guessed, guessed) if guessed else None


def told_type(source: str) -> str | None:
    """Return the type of base64 content by its first bytes; None if they do not determine it. Never
    raises.
    """
    try:
        return media_type_of(
            base64.b64decode(source[:64].translate({45: 43, 95: 47}), validate=True)
        )
    except (binascii.Error, ValueError):
        return None


def described_content(
    kind: str, content: bytes, *, media_type: str | None = None, name: str = ""
) -> JsonObject:
    """Fields of a part of this kind that holds the content: `source`, `mediaType` and a file's
    `filename`.

    Raises ValueError for content that is empty, too large, or evidently of another kind.
    """
    about = f"{name!r}" if name else f"the {kind}"
    if not content:
        raise ValueError(f"{about} is empty: expected the content of an {kind}")
    if len(content) > MAX_MEDIA_BYTES:
        raise ValueError(
            f"{about} has {len(content):,} bytes: expected at most {MAX_MEDIA_BYTES:,}"
        )
    type = media_type or media_type_of(content, name)
    if kind != "file" and type is None:
        raise ValueError(f"{about} has an unknown type: name it, such as media_type='{kind}/…'")
    if (
        kind != "file"
        and type is not None
        and type.partition("/")[0] not in (kind, _CONTAINERS.get(kind))
    ):
        raise ValueError(f"{about} is {type}: expected an {kind}")
    fields = {"source": base64.b64encode(content).decode(), "mediaType": type or UNKNOWN_TYPE}
    return {**fields, "filename": name} if name and kind == "file" else fields


_CONTAINERS = {"audio": "video"}
"""Sound files are often named and typed as video (`.mp4`, `.webm`)."""


def read_content(file: str | os.PathLike[str] | IO[bytes]) -> tuple[bytes, str]:
    """Content of a file, or of one that is open in binary mode, and its name without folders, if it
    has one.

    Raises OSError for an unreadable file, ValueError for anything but a regular file, for text, and
    for more than `MAX_MEDIA_BYTES`.
    """
    if isinstance(file, str | os.PathLike):
        path = os.path.expanduser(file)
        if not stat.S_ISREG(os.stat(path).st_mode):  # Reading a pipe could block for ever.
            raise ValueError(
                f"{str(file)!r} is not a regular file: expected a file, or one that is open in "
                "mode 'rb'"
            )
        with open(path, "rb") as opened:
            return _read_bounded(opened), PurePath(file).name
    name = getattr(file, "name", "")
    return _read_bounded(file), PurePath(name).name if isinstance(name, str) else ""


def _read_bounded(file: IO[bytes]) -> bytes:
    content = file.read(MAX_MEDIA_BYTES + 1)
    if not isinstance(content, bytes):
        raise ValueError(
            f"{file!r:.80} gives {type(content).__name__}: expected a file that is open in mode "
            "'rb'"
        )
    return content


def _is_url(source: str) -> bool:
    return _URL.match(source) is not None or source[:5].lower() == "data:"
