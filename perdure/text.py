"""Text from outside made valid, shortened and escaped; counts, money and times for people."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any
from unicodedata import category

from .json_types import JsonView

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters except tab and line feed, and characters that change the direction of text."""


Note = Callable[[int, int, int], str]
"""Returns the text that replaces an omitted part, from its first character, its bytes, and those of
the whole."""


def excerpt(text: str, limit: int) -> str:
    """Return the text, or its first characters and `…`; at most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def one_line(text: str, limit: int = 100) -> str:
    """Return the text on one line, every run of white space as one space; at most `limit`
    characters.
    """
    return excerpt(" ".join(text.split()), limit)


def function_name(name: str) -> str:
    """Return the name with `_` for characters that models don't accept in a function's name; at
    most 64 characters.
    """
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64]


def visible(text: str) -> str:
    """Text with control characters escaped as in Python, so that a terminal shows them; line breaks
    stay.
    """
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def visible_json(text: str) -> str:
    """JSON text with characters that act on a terminal escaped as in JSON; the value is the
    same.
    """
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def count_of(number: float, noun: str) -> str:
    """Return the number with its noun, such as `1 day` and `1.5 days`."""
    return f"{number:g} {noun}" if number == 1 else f"{number:,.10g} {noun}s"


def left_out_here(start: int, missing: int, whole: int) -> str:
    """Return the note for readers who can't get the omitted part."""
    return f"[… {missing:,} of {whole:,} bytes left out here …]"


def cut_middle(text: str, limit: int, note: Note = left_out_here) -> str:
    """Return the text in at most `limit` bytes of UTF-8; a note, which comes in addition, replaces
    the omitted part.

    Three quarters of the rest are the beginning of the text, one quarter is its end.
    """
    if len(text) <= limit and text.isascii():
        return text
    encoded = utf8(text)
    if len(encoded) <= limit:
        return encoded.decode()
    head, tail = limit * 3 // 4, limit - limit * 3 // 4
    start = encoded[:head].decode(errors="ignore")
    end = encoded[len(encoded) - tail :].decode(errors="ignore")
    return f"{start}\n{note(len(start), len(encoded) - limit, len(encoded))}\n{end}"


def utf8(text: str) -> bytes:
    """Return the text in UTF-8, with a question mark for half of a surrogate pair, which UTF-8
    can't encode.
    """
    return text.encode("utf-8", errors="replace")


def utf8_bytes(text: str) -> int:
    """Return the number of bytes of the text in UTF-8."""
    return len(text) if text.isascii() else len(utf8(text))


MAX_TEXT_BYTES = 8 * 1024
"""The limit of untrusted text in a failure."""

_UNSEEN = {"Cc", "Cf", "Zs", "Zl", "Zp", "Mn"}
"""Unicode's categories of invisible characters."""
_BLANK = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and a symbol without visible glyphs."""
_HALF = re.compile("[\ud800-\udfff]")
_LONGEST_WORD = 1024
_LAST_WORD = re.compile(r"\S+\Z")


def says_something(text: str) -> bool:
    """Return whether the text has a visible character."""
    return any(category(each) not in _UNSEEN and each not in _BLANK for each in text)


def valid_text(text: str) -> str:
    """Return the text with matching halves of surrogate pairs joined, and any other one as
    U+FFFD.
    """
    if text.isascii() or not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def valid_json(value: Any) -> Any:
    """Copy of the JSON value in which all text is valid, keys included; a tuple becomes a list, as
    it would in JSON.

    Raises RecursionError for a value that is nested hundreds of levels deep.
    """
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, dict):
        return {valid_json(key): valid_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [valid_json(item) for item in value]
    return value


def bounded_text(text: str, limit: int = MAX_TEXT_BYTES) -> str:
    """Text, valid; of a longer one, the beginning that takes at most `limit` bytes together with a
    notice.

    The word at the cut is dropped too: redaction would not find half of a secret.
    """
    if len(text) * 4 <= limit:
        return valid_text(text)
    encoded = valid_text(text).encode()
    if len(encoded) <= limit:
        return encoded.decode()
    notice = f" [… cut: {len(encoded):,} bytes]"
    head = encoded[: max(0, limit - len(notice.encode()))].decode(errors="ignore")
    return (head[:-_LONGEST_WORD] + _LAST_WORD.sub("", head[-_LONGEST_WORD:])).rstrip() + notice


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint to append to a message, with the known word most similar to `word`; "" if there
    is none.
    """
    near = nearest(word, known)
    return "" if near is None else f" (did you mean {near!r}?)"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word most similar to `word`, ignoring case and separators, or None."""
    plain = {_plain_word(each): each for each in known}
    near = difflib.get_close_matches(_plain_word(word), plain, n=1, cutoff=0.7)
    return plain[near[0]] if near else None


def require_known(call: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise TypeError for the first name that is not an argument of the function."""
    names = list(known)
    for name in given:
        if name not in names:
            raise TypeError(
                f"{call}() got an unexpected keyword argument {name!r}{did_you_mean(name, names)}"
            )


def _plain_word(word: str) -> str:
    return re.sub(r"[\W_]", "", word).lower() or word


def unknown_argument(name: str, known: Iterable[str], place: str = "") -> str:
    """Return the sentence about an unknown argument of a tool, with the most similar one, or all of
    them.
    """
    names = list(known)
    near = nearest(name[:200], names)
    hint = f"expected {excerpt(', '.join(names), 500)}" if names else "it takes none"
    return (
        f"unknown argument {place + name!r:.100}: "
        f"{f'did you mean {place + near!r}?' if near else hint}"
    )


def fault_text(detail: JsonView) -> str:
    """Return pydantic's text of one fault; only the validator's own words if a validator raised
    it.
    """
    error = detail.get("ctx", {}).get("error")
    return str(detail["msg"]) if error is None else str(error)


DIGITS = 10
"""Decimal places that sums are rounded to, so that adding floats leaves no rounding error."""


def format_usd(amount: float | None, *, unpriced: int = 0) -> str:
    """Return the amount in US dollars, such as `$0.031`; "" if it is unknown.

    From one dollar on it has cents, below that two significant digits. `unpriced` is the number of
    model calls that it does not include, because their price is unknown: then it is a lower bound.
    """
    if amount is None:
        return ""
    text = f"${amount:,.2f}" if amount >= 1 or amount == 0 else f"${_digits(amount)}"
    return f"at least {text}" if unpriced else text


def _digits(amount: float) -> str:
    places = 2
    while places < DIGITS and round(amount, places) < 10 ** (1 - places):
        places += 1
    return f"{amount:.{places}f}"


UTF_8 = "utf-8"


def duration_text(seconds: float) -> str:
    """Format a time in its two largest units: `340 ms`, `1.2 s`, `1 min 34 s`, `2 d 3 h`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = timedelta(seconds=round(seconds))
    hours, rest = divmod(whole.seconds, 3600)
    units = {"d": whole.days, "h": hours, "min": rest // 60, "s": rest % 60}
    first = next(place for place, amount in enumerate(units.values()) if amount)
    shown = [
        f"{amount} {unit}" for unit, amount in list(units.items())[first : first + 2] if amount
    ]
    return " ".join(shown)
