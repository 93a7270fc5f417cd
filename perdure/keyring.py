"""Keys of a process, `KEYID:BASE64KEY[,OLDID:…]`, from a variable of its environment or a file."""

from __future__ import annotations

import base64
import binascii
import os
import re
from pathlib import Path

from .errors import ConfigurationError

KEY_BYTES = 32
MAKE_ONE = "`perdure encryption-key` prints one"
KEY_ID_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def keys_in(
    text: str, source: str, error: type[ConfigurationError] = ConfigurationError
) -> dict[str, bytes]:
    """Return the keys by id, in their order; line ends separate like commas, `#` begins a comment.

    Raises `error`, which names the `source` and never shows a key, for anything but usable keys.
    """
    keys: dict[str, bytes] = {}
    lines = (line.partition("#")[0] for line in text.splitlines())
    entries = [entry.strip() for line in lines for entry in line.split(",") if entry.strip()]
    for number, entry in enumerate(entries, start=1):
        id, _, encoded = entry.partition(":")
        require_key_id(id, f"{source}, entry {number}", error)
        if id in keys or not encoded:
            raise error(
                f"{source}, entry {number}: expected KEYID:BASE64KEY with an id of its own; "
                f"{MAKE_ONE}"
            )
        try:
            standard = encoded.strip().translate(str.maketrans("-_", "+/"))
            keys[id] = base64.b64decode(standard, validate=True)
        except binascii.Error as problem:
            raise error(
                f"{source}, entry {number} ({id!r}): the key is not base64 ({problem}); {MAKE_ONE}"
            ) from None
        if (length := len(keys[id])) != KEY_BYTES:
            raise error(
                f"{source}, entry {number} ({id!r}): the key has {length} bytes, expected "
                f"{KEY_BYTES}; {MAKE_ONE}"
            )
    if not keys:
        raise error(
            f"{source} is set, but has no key: expected KEYID:BASE64KEY[,OLDID:BASE64KEY]; "
            f"{MAKE_ONE}. To do without, unset it"
        )
    return keys


def require_key_id(id: str, place: str, error: type[ConfigurationError]) -> None:
    """Raise `error` for an id that keys can't have; a long one may be a key without its id."""
    if not KEY_ID_FORM.fullmatch(id):
        shown = repr(id) if len(id) <= 20 else f"one of {len(id)} characters"
        raise error(
            f"{place}: the key's id is {shown}, expected KEYID:BASE64KEY with an id of up to 64 "
            f"letters, digits, dots, dashes and underscores, such as 2026-11; {MAKE_ONE}"
        )


def written_keys(
    variable: str, error: type[ConfigurationError] = ConfigurationError
) -> tuple[str, str] | None:
    """Return the text of the keys in a variable, or in the file that `…_FILE` names, and its source
    for errors; None if neither is set. Raises `error` for both, and for an unreadable file.
    """
    text, path = os.environ.get(variable), os.environ.get(f"{variable}_FILE")
    if text is not None and path is not None:
        raise error(
            f"{variable} and {variable}_FILE are both set, expected one of them: unset the other"
        )
    if path is None:
        return None if text is None else (text, variable)
    source = f"{variable}_FILE={path!r}"
    try:
        return Path(path).expanduser().read_text(encoding="utf-8"), source
    except (OSError, ValueError, RuntimeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not text"
        raise error(f"{source} can't be read: {reason}. Expected a file of keys") from problem
