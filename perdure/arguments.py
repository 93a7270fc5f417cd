"""Parses the arguments of a tool call with the repairs of §9.8, and restricts values to those of
JSON.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from .errors import LoadError, ToolArgumentError
from .json_types import JsonObject

_STRING = r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)'
_TOKEN = re.compile(rf"{_STRING}|[{{}}]", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*+[}}\]])", re.DOTALL)
_MAX_DEPTH = 100
"""Levels of nesting; payload converters refuse 200."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def parse_tool_arguments(raw: str) -> JsonObject:
    """Return the arguments; {} for an empty text. Raises `ToolArgumentError` if no repair of §9.8
    helps.
    """
    return parse_with_repair(raw)[0]


def parse_with_repair(raw: str) -> tuple[JsonObject, str | None]:
    """Return the arguments, and a warning if they needed a repair.

    Takes time linear in the length of the text. Raises `ToolArgumentError` if no repair helps, if
    the JSON is not an object or is nested too deeply, and if it has a value that JSON can't express
    (NaN, half of a surrogate pair).
    """
    if not raw.strip():
        return {}, None
    try:
        return _object(_json(raw), raw), None
    except _NotJsonError as error:
        first_error = error
    for repair, what_helped in _REPAIRS:
        repaired = repair(raw)
        if repaired is None:
            continue
        try:
            return _object(_json(repaired), repaired), f"Parsed tool arguments after {what_helped}"
        except _NotJsonError:
            continue
    raise ToolArgumentError(str(first_error))


class _NotJsonError(ValueError):
    """The text is not valid JSON; the next repair may help."""


def _json(text: str) -> Any:
    try:
        return DECODER.decode(text)
    except RecursionError:
        raise _NotJsonError("nested too deeply") from None
    except ValueError as error:
        raise _NotJsonError(str(error)) from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is too large a number")
    return number


DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
"""Parses JSON, and raises ValueError for a number that JSON can't hold, such as `NaN` or
`1e400`."""


def _object(value: Any, text: str) -> JsonObject:
    if not isinstance(value, dict):
        raise ToolArgumentError(f"expected a JSON object, got {text.strip()[:80]!r}")
    if text.count("{") + text.count("[") > _MAX_DEPTH and deeper_than(value, _MAX_DEPTH):
        raise ToolArgumentError(f"nested deeper than {_MAX_DEPTH} levels")
    may_hold_surrogates = "\\u" in text or not text.isascii()
    if may_hold_surrogates and _LONE_SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise ToolArgumentError(
            "a \\u escape is half of a surrogate pair and stands for no character"
        )
    return value


def deeper_than(value: Any, levels: int) -> bool:
    """Return whether dicts and lists in the value are nested more than `levels` deep."""
    row = [value]
    for _ in range(levels + 1):
        if not row:
            return False
        row = [child for parent in row for child in _children(parent)]
    return bool(row)


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _without_fences(raw: str) -> str | None:
    text = raw.strip()
    if len(text) < 6 or not (text.startswith("```") and text.endswith("```")):
        return None
    return text[3:-3].removeprefix("json").strip()


def _first_braces(raw: str) -> str | None:
    """Return the `{…}` block that begins at the first brace; braces within JSON strings do not
    count.

    None if it is not closed, or is only a part of a value that begins before it or continues after
    it.
    """
    start = raw.find("{")
    before = raw[: max(start, 0)]
    if start < 0 or before.lstrip().startswith('"') or before.count('"') % 2 or _opens_more(before):
        return None
    end = closing_brace(raw, start)
    if end is None or raw[end:].lstrip().startswith(",") or _opens_more(raw[end:]):
        return None
    return raw[start:end]


def _opens_more(text: str) -> bool:
    """Return whether more brackets open than close."""
    return text.count("[") > text.count("]") or text.count("{") > text.count("}")


def closing_brace(text: str, start: int) -> int | None:
    """Return the index after the closing brace of the object that begins at `start`; None if the
    text ends first.
    """
    depth = 0
    for match in _TOKEN.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if not depth:
            return match.end()
    return None


def without_trailing_commas(raw: str) -> str:
    """Return the text without the commas directly before closing brackets outside of strings. Takes
    linear time.
    """
    return _TRAILING_COMMA.sub(lambda match: match[1] or "", raw)


def _braces_without_trailing_commas(raw: str) -> str | None:
    block = _first_braces(raw)
    return None if block is None else without_trailing_commas(block)


_REPAIRS: tuple[tuple[Callable[[str], str | None], str], ...] = (
    (_without_fences, "stripping markdown fences"),
    (_first_braces, "extracting the first JSON object"),
    (without_trailing_commas, "removing trailing commas"),
    (
        _braces_without_trailing_commas,
        "extracting the first JSON object and removing trailing commas",
    ),
)

Place: TypeAlias = tuple[str | int, ...]
"""The keys and indexes that lead from the top of an asset to a value."""

MAX_DEPTH = 64
"""Levels of nesting."""
MAX_VALUES = 20_000
"""Values of one asset, with aliases and references followed: the limit for a file that multiplies
itself."""


def dotted_path(place: Place) -> str:
    """Return the place in the author's notation, such as `model.connection.endpoint` or
    `inputs[0].kind`.
    """
    return "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" for step in place
    ).removeprefix(".")


def json_value(value: Any, place: Place = ()) -> Any:
    """Return a copy made of dict, list, str, int, float, bool and None only.

    Raises `LoadError`, which names the place, for a value without a JSON form and for one that is
    nested too deeply.
    """
    if len(place) > MAX_DEPTH:
        raise LoadError(
            f"nested deeper than {MAX_DEPTH} levels", field=dotted_path(place[:3]) + "…"
        )
    if isinstance(value, Mapping):
        return {
            _key(key, place): json_value(child, (*place, str(key))) for key, child in value.items()
        }
    if isinstance(value, list | tuple):
        return [json_value(child, (*place, index)) for index, child in enumerate(value)]
    reason = why_no_json(value)
    if reason:
        raise LoadError(reason, field=dotted_path(place))
    return value


def why_no_json(scalar: Any) -> str | None:
    """Return why the scalar has no JSON form; None if it has one."""
    if isinstance(scalar, str):
        return (
            "half of a surrogate pair is not a character"
            if _LONE_SURROGATE.search(scalar)
            else None
        )
    if isinstance(scalar, float) and not math.isfinite(scalar):
        return f"{scalar!r} is not a number that JSON can express"
    if scalar is None or isinstance(scalar, int | float):
        return None
    return f"a {type(scalar).__name__} has no JSON form"


def _key(key: Any, place: Place) -> str:
    reason = why_no_json(key) if isinstance(key, str) else f"the key {key!r} must be a string"
    if reason:
        raise LoadError(reason, field=dotted_path(place))
    return str(key)
