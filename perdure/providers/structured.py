"""A model's answer as the value that `outputs` declare, with the further checks of a Python type
(§8, §8.8).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from hashlib import blake2b
from itertools import islice
from threading import Lock
from typing import Any, TypeVar

from cachetools import LRUCache

from ..arguments import DECODER
from ..declared_tools import Property
from ..schema import ANSWER, LENIENT, answer_schema, is_bare
from ..text import excerpt, valid_json

Check = Callable[[Any], list[str]]
"""Returns the reasons to refuse an answer that fits the `outputs`; [] to accept it. Must not
raise."""

REMEMBERED = 1000
"""The most checks that are remembered: functions may create types."""

_checks: LRUCache[tuple[str, Hashable], Check] = LRUCache(REMEMBERED)
_lock = Lock()


def remember_check(outputs: Sequence[Property], of: Hashable, check: Check) -> None:
    """Check the answers of all runs with these outputs from now on, in this process, once for each
    `of`.
    """
    with _lock:
        _checks[_digest(outputs), of] = check


def check_faults(value: Any, outputs: Sequence[Property]) -> list[str]:
    """Return why no check for these outputs accepts the answer; [] if one does, or if there is
    none.

    A run does not record its caller's type: if several types have the same outputs, one of them is
    enough.
    """
    with _lock:
        digest = _digest(outputs) if _checks else ""
        checks = [check for (known, _), check in _checks.items() if known == digest]
    faults: list[str] = []
    for check in reversed(checks):
        told = check(value)
        if not told:
            return []
        faults = faults or told
    return faults


def _digest(outputs: Sequence[Property]) -> str:
    dumped = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in outputs]
    return blake2b(json.dumps(dumped, sort_keys=True).encode(), digest_size=16).hexdigest()


T = TypeVar("T")

MAX_FAULTS = 20
MAX_FAULT_CHARS = 500


class StructuredResult(dict[str, Any]):
    """A structured answer, together with the model's own text (§8.8)."""

    def __init__(self, value: dict[str, Any], raw_json: str) -> None:
        super().__init__(value)
        self._raw_json = raw_json

    @property
    def raw_json(self) -> str:
        """JSON text, exactly as the model wrote it."""
        return self._raw_json


def structured_value(text: str) -> Any:
    """Return the value of a JSON text: a StructuredResult for an object; the text itself if it is
    not JSON (§8).
    """
    try:
        value = valid_json(DECODER.decode(text))
    except (ValueError, RecursionError):
        return text
    return StructuredResult(value, text) if isinstance(value, dict) else value


def answer_value(text: str, outputs: Sequence[Property]) -> Any:
    """Return the value of an answer; the text itself if that is not JSON.

    It is a StructuredResult if it equals the model's own JSON.
    """
    return read_value(structured_value(text), outputs)


def read_value(value: Any, outputs: Sequence[Property]) -> Any:
    """Return an answer without the object that wraps it, and with objects in place of their lists
    of entries.
    """
    if is_bare(outputs):
        is_wrapped = isinstance(value, dict) and value.keys() == {ANSWER}
        return _read_as(value[ANSWER] if is_wrapped else value, outputs[0])
    plain = _read_as(value, _object(outputs))
    return value if plain == value else plain


def without_nulls(value: Any, properties: Sequence[Property]) -> Any:
    """Return the value without null members whose type does not allow null: models write absent
    members as null.
    """
    described = properties[0] if is_bare(properties) else _object(properties)
    return _read_as(value, described, drops_nulls=True)


def _object(properties: Sequence[Property]) -> Property:
    return Property(kind="object", properties=list(properties))


def _read_as(value: Any, prop: Property | None, *, drops_nulls: bool = False) -> Any:
    """Return the value with objects in place of the lists of `{key, value}` that represent them,
    and without those null members if `drops_nulls`.
    """
    read = partial(_read_as, drops_nulls=drops_nulls)
    match prop:
        case Property(kind="array") if isinstance(value, list):
            return [read(each, prop.items) for each in value]
        case Property(kind="object", values=Property() as values):
            if isinstance(value, list) and all(
                isinstance(e, dict) and e.keys() == {"key", "value"} for e in value
            ):
                value = {str(entry["key"]): entry["value"] for entry in value}
            is_object = isinstance(value, dict)
            return {k: read(v, values) for k, v in value.items()} if is_object else value
        case Property(kind="object") if isinstance(value, dict):
            known = {each.name: each for each in prop.properties or []}
            return {
                name: read(member, known.get(name))
                for name, member in value.items()
                if not (drops_nulls and member is None and _is_optional(known.get(name)))
            }
        case Property(kind="union"):
            found = ((read(value, each), each) for each in prop.one_of or prop.any_of or [])
            fitting = (
                plain
                for plain, each in found
                if not output_faults(plain, [each.model_copy(update={"name": ""})])
            )
            return next(fitting, value)
    return value


def _is_optional(prop: Property | None) -> bool:
    return prop is not None and not (prop.nullable or prop.required)


def read_answer(text: str, outputs: Sequence[Property]) -> tuple[Any, list[str]]:
    """Value of an answer, and why it does not fit the declared outputs; the value is None for
    anything but the declared object.

    The rules of types with these outputs count too, if this process knows any (`remember_check`).
    """
    value = answer_value(text, outputs)
    if not (is_bare(outputs) or isinstance(value, dict)):
        return None, ["the answer is not a JSON object"]
    return value, output_faults(value, outputs) or _shown_faults(check_faults(value, outputs))


def output_faults(value: Any, outputs: Sequence[Property]) -> list[str]:
    """Return why a value does not match the declared outputs, at most 20 reasons; [] if it does.

    Raises ValueError for a union without alternatives.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    written = {ANSWER: value} if is_bare(outputs) else value
    errors = Draft202012Validator(answer_schema(outputs, LENIENT)).iter_errors(written)
    try:
        # Of a value that fits no alternative, the fault of the most similar one.
        best = (best_match([error]) for error in errors)
        return _shown_faults(f"{each.json_path}: {each.message}" for each in best)
    except RecursionError:
        return ["the answer is nested too deeply"]


def _shown_faults(faults: Iterable[str]) -> list[str]:
    return [excerpt(fault, MAX_FAULT_CHARS) for fault in islice(faults, MAX_FAULTS)]


def cast(result: Any, target: type[T]) -> T:
    """Return the result as a pydantic model, a dataclass, a TypedDict or a plain type (§8.8).

    A StructuredResult is parsed from its raw text, so that no digit of a number is lost in a dict.
    Raises ValueError (pydantic's ValidationError) if the result does not fit.
    """
    from pydantic import TypeAdapter

    adapter = TypeAdapter(target)
    if isinstance(result, StructuredResult):
        return adapter.validate_json(result.raw_json)
    return adapter.validate_python(result)
