"""Turns an asset in canonical form into an agent, or lists its errors, in the author's terms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ..agents import Agent, EnvReference, LoadedAgent
from ..arguments import Place
from ..declared_tools import ApprovalPolicy, Node, ToolPolicy
from ..json_types import JsonView
from ..redaction import is_secret_name
from ..settings.values import unknown
from ..text import did_you_mean, fault_text
from .references import FromEnvironment, is_unset
from .shorthands import ANSWER, answer_in, last_name, map_strings, maps_in, pointer, strings

_EXPECTED = {
    "string": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "dict": "a map",
    "model": "a map",
}
_ELSEWHERE = ("needs_approval", "approvers", "approval", "approval_timeout", "idempotent")
"""Parts of the policy of a tool, in Python or in files, without which its calls would run
unchecked."""


class InvalidAssetError(Exception):
    """The asset does not describe an agent; lists all errors, with their places."""

    def __init__(self, problems: list[tuple[Place, str]]) -> None:
        super().__init__(problems)
        self.problems = problems


def to_agent(asset: JsonView) -> Agent:
    """Agent that an asset in canonical form describes. Raises InvalidAssetError with all errors."""
    problems = [*_name_problems(asset), *_misplaced_policies(asset)]
    try:
        agent = Agent.model_validate(
            map_strings(asset, lambda _, text: str(text)), by_alias=True, by_name=False
        )
    except ValidationError as error:
        raise InvalidAssetError([*problems, *_type_problems(error, asset)]) from None
    # A misspelt approval would let calls run without one.
    for place, model in unknown_fields(agent):
        if model in (ToolPolicy, ApprovalPolicy):
            problems.append((place, unknown(str(place[-1]), model.file_keys())))
    if problems:
        raise InvalidAssetError(problems)
    references = {
        pointer(place): EnvReference(text.reference, str(text))
        for place, text in strings(asset)
        if isinstance(text, FromEnvironment) and not is_unset(text)
    }
    return LoadedAgent.of(agent, references=references)


def _type_problems(error: ValidationError, asset: JsonView) -> Iterator[tuple[Place, str]]:
    seen: set[Place] = set()
    # A value that may be a word or a map, and is a map, gets the errors of a map.
    details = sorted(
        error.errors(include_url=False),
        key=lambda it: it["type"] == "literal_error" and _is_map(it),
    )
    for detail in details:
        place = _place_of(detail, asset)
        if place not in seen:
            seen.add(place)
            yield place, _explained(detail, place)


def _is_map(detail: ErrorDetails) -> bool:
    return isinstance(detail["input"], Mapping)


def _place_of(detail: ErrorDetails, asset: Any) -> Place:
    """Return the place in the asset, without steps that exist only in the types, such as the chosen
    member of a union.
    """
    place: Place = ()
    value = asset
    for step in detail["loc"]:
        if _leads_on(value, step):
            place, value = (*place, step), value[step]
    return (*place, detail["loc"][-1]) if detail["type"] == "missing" else place


def _leads_on(value: Any, step: str | int) -> bool:
    return (
        isinstance(step, int)
        if isinstance(value, list)
        else isinstance(value, Mapping) and step in value
    )


def _explained(detail: ErrorDetails, place: Place) -> str:
    """Return the message about one error at that place."""
    if place == ("template",):
        return (
            "Invalid template format: expected a map of `format` and `parser`, got "
            f"{detail['input']!r:.60}"
        )
    if detail["type"] == "missing":
        return "is missing"
    found = "" if is_secret_name(last_name(place)) else f", got {detail['input']!r:.60}"
    if detail["type"] == "literal_error":
        expected = detail["ctx"]["expected"]
        known = re.findall("'([^']*)'", expected)
        return f"expected {expected}{found}{did_you_mean(str(detail['input']), known)}"
    expected = _EXPECTED.get(detail["type"].partition("_")[0])
    return f"{f'expected {expected}' if expected else fault_text(detail)}{found}"


def _name_problems(asset: JsonView) -> Iterator[tuple[Place, str]]:
    for key in ("inputs", "outputs", "tools"):
        yield from _list_problems(asset.get(key), (key,))
    if answer_in(asset) is not None and any(
        each.get("name") for _, each in maps_in(asset.get("outputs"))
    ):
        yield ANSWER, "declares an answer, and so does `outputs`: expected one of them"
    for place, tool in maps_in(asset.get("tools"), ("tools",)):
        yield from _list_problems(tool.get("parameters"), (*place, "parameters"))


def unknown_fields(value: Any, place: Place = ()) -> Iterator[tuple[Place, type[Node]]]:
    """Yield the place of each field that its type does not have, and that type."""
    if isinstance(value, Node):
        yield from (((*place, key), type(value)) for key in value.model_extra or ())
        for name, field in type(value).model_fields.items():
            yield from unknown_fields(getattr(value, name), (*place, field.alias or name))
    elif isinstance(value, list | dict) and place[-1] != "metadata":
        for step, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from unknown_fields(child, (*place, step))


def _misplaced_policies(asset: JsonView) -> Iterator[tuple[Place, str]]:
    """Yield the keys of tools that belong in the policy but are outside of it: calls would run
    without them.
    """
    parts = list(map(_spelling, _ELSEWHERE))
    for place, tool in maps_in(asset.get("tools"), ("tools",)):
        for key in map(str, tool):
            is_misspelt = key != "perdure" and did_you_mean(key.lower(), ["perdure"])
            if _spelling(key) in parts or (is_misspelt and isinstance(tool[key], Mapping)):
                text = (
                    f"{key!r:.80} has no effect here: write a tool's policy under its key `perdure`"
                )
                yield (*place, key), text


def _spelling(key: str) -> str:
    return key.lower().replace("_", "").replace("-", "")


def _list_problems(items: Any, place: Place) -> Iterator[tuple[Place, str]]:
    """Yield names that are empty, missing (if the type does not demand one) or used twice."""
    names: set[str] = set()
    for where, item in maps_in(items, place):
        name = item.get("name")
        if name == "" and place == ("outputs",) and len(items) == 1:
            continue  # The answer itself.
        if not name and (name is not None or place != ("tools",)):
            yield (*where, "name"), "is missing"
        elif isinstance(name, str) and name in names:
            yield (*where, "name"), f"the name {name!r} is used twice"
        elif isinstance(name, str):
            names.add(name)
