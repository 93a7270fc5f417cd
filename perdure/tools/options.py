"""Checks the `options` of a declared tool by the model of its kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from ..text import did_you_mean, fault_text


def option_problems(model: type[BaseModel], given: Any) -> Iterator[str]:
    """Yield a sentence for each wrong option, without values, which may be secrets.

    Skips values that the environment will give.
    """
    try:
        model.model_validate(given or {}, extra="forbid")
    except ValidationError as error:
        places: set[str] = set()
        for each in error.errors(include_url=False):
            place, last = _place(each["loc"], given), str((*each["loc"], "")[-2])
            if place in places or ("${" in repr(each["input"]) and each["type"] != "missing"):
                continue
            places.add(place)
            if each["type"] == "extra_forbidden":
                known = [field.alias or name for name, field in model.model_fields.items()]
                yield f"{place} is unknown{did_you_mean(last, known)}: expected some of " + (
                    ", ".join(known)
                )
            else:
                yield f"{place}: {fault_text(dict(each))}"


def _place(steps: tuple[int | str, ...], value: Any) -> str:
    """Return the place of a fault as the file has it, without the names of a union's types."""
    place = "options"
    for step in steps:
        if not isinstance(value, Mapping) or step == "[key]":
            break
        place, value = f"{place}.{step}", value.get(step)
    return place
