"""The kind of a failure and the figures of an overflow, by a server's codes and words:
`errors.toml`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from ..errors import ModelErrorKind
from ..json_types import JsonView

_IS_STATUS = re.compile(r"[45]\d\d")
_PLAUSIBLE = range(100, 10**8)


@cache
def table() -> JsonView:
    """Return the table of errors.toml."""
    return tomllib.loads(files(__package__).joinpath("errors.toml").read_text(encoding="utf-8"))


@cache
def pattern(*texts: str) -> re.Pattern[str]:
    """Return the pattern of any of the texts, ignoring case."""
    text = "|".join(texts)
    for name, part in table()["parts"].items():
        text = text.replace(name, part)
    return re.compile(text, re.IGNORECASE)


@cache
def _kinds_by(key: str) -> Mapping[Any, Any]:
    return {each: kind for kind, row in table()["kinds"].items() for each in row.get(key, ())}


def error_kind(
    status: int | None, codes: Sequence[str], text: str, *, has_wait: bool = False
) -> ModelErrorKind:
    """Return the kind of a failure, from all of the server's signs; `has_wait`: it names a time for
    a retry. Never raises.

    An error with the status of a success, or inside a stream, may have its status among the codes;
    if the code is unknown, the error is the server's, because it accepted the request.
    """
    if status is None or status < 400:
        status = next((int(code) for code in codes if _IS_STATUS.fullmatch(code)), 0)
    kind: ModelErrorKind = _by_code("codes", codes) or _kind_by_words(status, text, has_wait)
    if not kind and status:
        kind = _kinds_by("statuses").get(status, "server" if status >= 500 else "bad_request")
    return kind or _by_code("codes_alone", codes) or "server"


def _by_code(key: str, codes: Sequence[str]) -> Any:
    return next(filter(None, map(_kinds_by(key).get, codes)), None)


def _kind_by_words(status: int, text: str, has_wait: bool) -> Any:
    keys = ["words"] if has_wait or status != 429 else ["words", "words_without_wait"]
    for kind, row in table()["kinds"].items():
        is_read = (
            status in row["read_with"]
            if "read_with" in row
            else status not in row.get("unread_with", ())
        )
        words = [each for key in keys for each in row.get(key, ())]
        may_be_it = is_read or kind == "context_length"
        if (
            words
            and may_be_it
            and pattern(*words).search(text)
            and (is_read or overflow_figures(text)[1])
        ):
            return kind
    return None


def overflow_figures(text: str) -> tuple[int | None, int | None]:
    """Return the model's limit and the request's size, mostly in tokens, if the text has them.

    The second is larger than the first, or None. Never raises.
    """
    limits = map(pattern, table()["kinds"]["context_length"]["limits"])
    limit = next((_figure(found[1]) for each in limits if (found := each.search(text))), 0)
    if not limit:
        return None, None
    added = [sum(map(_figure, each)) for each in pattern(r"NUMBER \+ NUMBER").findall(text)]
    figures = pattern(r"(?<![\w.,-])NUMBER(?![\w-])").findall(text)
    larger = [each for each in [*map(_figure, figures), *added] if each > limit]
    return limit, max(larger, default=None)


def _figure(digits: str) -> int:
    """Return the number; 0 for one that is too small or too large to be a conversation's count of
    tokens.
    """
    number = int(digits.replace(",", ""))
    return number if number in _PLAUSIBLE else 0
