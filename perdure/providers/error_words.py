"""What servers mean by the codes and the words of their errors: the kind of a failure, the figures of an overflow.

The codes, the statuses and the words are in `errors.toml`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from ..errors import ModelErrorKind
from ..json_types import JsonObject

_TOOLS = r"(?:tools?|tool[ _-]?(?:use|calls?|calling|choice)|functions?|function[ _-]?calls?|function[ _-]?calling)"
_N = r"(?<!\d)(\d{1,3}(?:,\d{3}){1,2}|\d{1,9})(?!\d)"
_LIMITS = (
    re.compile(rf"(?:<=|>|\[1,) ?{_N}"),
    re.compile(
        rf"(?:(?:maximum|max\.?|available) [a-z' ]{{0,40}}|(?:context (?:length|size|window)|limit|exceed|less than)"
        rf"[a-z ]{{0,20}})[ :(=]{{0,3}}{_N}",
        re.IGNORECASE,
    ),
    re.compile(rf"{_N} (?:tokens )?max", re.IGNORECASE),
)
_SUM = re.compile(rf"{_N} \+ {_N}")
_FIGURE = re.compile(rf"(?<![\w.,-]){_N}(?![\w-])")
_PLAUSIBLE = range(100, 10**8)
_ABOUT_THE_REQUEST = frozenset({None, 200, 400, 403, 404, 413, 422, 451})
"""Statuses with which the words of an error may say that the request is too long, or refused."""
_IS_STATUS = re.compile(r"[45]\d\d")
_NEVER_ABOUT_TOOLS = frozenset({401, 402, 403, 408, 413, 429})


@cache
def _table() -> JsonObject:
    return tomllib.loads((files(__package__) / "errors.toml").read_text("utf-8"))


@cache
def _words(name: str) -> re.Pattern[str]:
    return re.compile("|".join(_table()["words"][name]).replace("<tools>", _TOOLS), re.IGNORECASE)


def _kind_of_code(codes: Sequence[str], table: str) -> ModelErrorKind | None:
    """Return the kind of the first code that the table has."""
    kinds: Mapping[ModelErrorKind, Sequence[str]] = _table()[table]
    return next((kind for code in codes for kind, listed in kinds.items() if code in listed), None)


def error_kind(status: int | None, codes: Sequence[str], text: str, *, has_wait: bool = False) -> ModelErrorKind:
    """Return the kind of a failure, by all that the server says; `has_wait`: it says when to ask again. Never raises.

    An error that comes with the status of a success, or inside a stream, may have its status among the codes; one
    whose code is unknown is the server's, because the request was accepted.
    """
    if status is None or status < 400:
        status = next((int(code) for code in codes if _IS_STATUS.fullmatch(code)), None)
    if decisive := _kind_of_code(codes, "decisive_codes"):
        return decisive
    if by_words := _kind_by_words(status, text, has_wait):
        return by_words
    if status is None:
        return _kind_of_code(codes, "codes") or "server"
    by_status: ModelErrorKind = _table()["statuses"].get(str(status), "server" if status >= 500 else "bad_request")
    return by_status


def _kind_by_words(status: int | None, text: str, has_wait: bool) -> ModelErrorKind | None:
    if status in (None, 400, 402, 403, 429) and _words("out_of_quota").search(text):
        return "quota_exhausted"
    if _words("overflow").search(text) and (status in _ABOUT_THE_REQUEST or overflow_figures(text)[1]):
        return "context_length"
    if status in _ABOUT_THE_REQUEST and _words("refused").search(text):
        return "refusal"
    if status == 400 and (_words("wrong_key").search(text) or _words("unknown_model").search(text)):
        return "authentication" if _words("wrong_key").search(text) else "not_found"
    if status == 429 and not has_wait and _words("maybe_out_of_quota").search(text):
        return "quota_exhausted"
    if status not in _NEVER_ABOUT_TOOLS and refuses_tools(text):
        return "no_tools"
    return None


def refuses_tools(text: str) -> bool:
    """Return whether an error's text says that the model, or its server, takes no tools. Never raises.

    A wrong tool, or a wrong conversation, is refused in other words.
    """
    return _words("no_tools").search(text) is not None


def overflow_figures(text: str) -> tuple[int | None, int | None]:
    """Return how much the model takes and how much the request had, mostly in tokens, as far as the text says so.

    The second is larger than the first, or None. Never raises.
    """
    limit = next((_figure(found[1]) for each in _LIMITS if (found := each.search(text))), 0)
    if not limit:
        return None, None
    added = [sum(map(_figure, each)) for each in _SUM.findall(text)]
    larger = [each for each in [*map(_figure, _FIGURE.findall(text)), *added] if each > limit]
    return limit, max(larger, default=None)


def _figure(digits: str) -> int:
    """Return the number; 0 for one that is too small or too large to count the tokens of a conversation."""
    number = int(digits.replace(",", ""))
    return number if number in _PLAUSIBLE else 0
