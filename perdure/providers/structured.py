"""A model's answer as the value that the agent's `outputs` declare (§8, §8.8)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

from ..agent import Property
from ..schema import LENIENT, object_schema
from ..valid_text import valid_json

T = TypeVar("T")


class StructuredResult(dict[str, Any]):
    """A structured answer, together with the text that the model wrote (§8.8)."""

    def __init__(self, value: dict[str, Any], raw_json: str) -> None:
        super().__init__(value)
        self._raw_json = raw_json

    @property
    def raw_json(self) -> str:
        """The JSON text, exactly as the model wrote it."""
        return self._raw_json


def structured_value(text: str) -> Any:
    """The value of a JSON text: a StructuredResult for an object; the text itself when it is not JSON (§8)."""
    try:
        value = valid_json(json.loads(text))
    except (ValueError, RecursionError):
        return text
    return StructuredResult(value, text) if isinstance(value, dict) else value


def output_faults(value: Any, outputs: Sequence[Property]) -> list[str]:
    """Why a value does not match the declared outputs, a sentence for each reason; [] when it does.

    Raises ValueError for a union without alternatives.
    """
    from jsonschema import Draft202012Validator

    errors = Draft202012Validator(object_schema(outputs, LENIENT)).iter_errors(value)
    return [f"The structured output does not match: {error.json_path}: {error.message}" for error in errors]


def cast(result: Any, target: type[T]) -> T:
    """The result as a pydantic model, a dataclass, a TypedDict or a plain type (§8.8).

    A StructuredResult is read from its raw text, so that no digit of a number is lost in a dict. Raises ValueError
    (pydantic's ValidationError) when the result does not fit.
    """
    from pydantic import TypeAdapter

    adapter = TypeAdapter(target)
    if isinstance(result, StructuredResult):
        return adapter.validate_json(result.raw_json)
    return adapter.validate_python(result)
