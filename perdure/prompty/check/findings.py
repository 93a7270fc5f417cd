"""The findings of a check, and those about an asset's frontmatter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ...agents import Agent, ModelOptions
from ...arguments import Place
from ...declared_tools import Connection, CustomTool, ToolPolicy
from ...json_types import JsonView
from ...settings.agent_file import setting_problems
from ...text import did_you_mean
from ..portable import (
    DEFAULT_SECRET,
    DELEGATES,
    LITERAL_SECRET,
    credential_id,
    env_name,
    env_value,
    has_secret_default,
    is_env_reference,
    is_literal_secret,
    places_named_secret,
    takes_credential,
)
from ..references import FromEnvironment, is_unset
from ..shorthands import maps_in, strings
from ..validation import unknown_fields


@dataclass(frozen=True)
class Finding:
    """An error or a likely mistake at one place."""

    place: Place
    """In the canonical form of the asset; () for its body."""
    message: str
    severity: Literal["error", "warning"] = "error"
    line: int | None = None
    """The line of the file, if the place does not determine it."""
    is_last: bool = False
    """Whether it comes after all others, because it sums them up."""


def warning(place: Place, message: str, line: int | None = None) -> Finding:
    """Return a finding that does not keep the agent from running."""
    return Finding(place, message, "warning", line)


_REFERENCE = re.compile(r"\$\{(?:env|file|credential):[^}]*\}")


def field_findings(asset: JsonView, written: JsonView, agent: Agent | None) -> Iterator[Finding]:
    """Yield likely mistakes in the canonical form of an asset, in its written form, brought to the
    present format, and in its agent, if it is valid.
    """
    yield from _unknown_top_level(written)
    yield from _unknown_keys(agent) if agent else ()
    yield from _bindings(asset)
    yield from _own_metadata(asset)
    named = places_named_secret(asset)
    for place, text in strings(
        {key: value for key, value in asset.items() if key != "instructions"}
    ):
        if not isinstance(text, FromEnvironment):
            yield from _literal(place, text, named)
        else:
            yield from _environment(place, text, named)


def names_of(items: Any) -> list[str]:
    """Return the names in a list of named things, skipping unnamed ones."""
    return [str(item["name"]) for _, item in maps_in(items) if item.get("name")]


def bindings_of(asset: JsonView) -> Iterator[tuple[Place, JsonView, str]]:
    """Yield each binding of each tool: its place, which ends with the parameter, the tool, and the
    name of the input.
    """
    for place, tool in maps_in(asset.get("tools"), ("tools",)):
        bindings = tool.get("bindings")
        for parameter, binding in bindings.items() if isinstance(bindings, Mapping) else ():
            source = binding.get("input") if isinstance(binding, Mapping) else None
            if isinstance(source, str):
                yield (*place, "bindings", parameter), tool, source


def _unknown_top_level(written: JsonView) -> Iterator[Finding]:
    known = [*Agent.file_keys(), "kind"]
    for key in written:
        if key not in known:
            hint = did_you_mean(key, known)
            yield warning(
                (key,), f"unknown property {key!r} has no effect and is kept as metadata{hint}"
            )


def _unknown_keys(agent: Agent) -> Iterator[Finding]:
    for place, model in unknown_fields(agent):
        known, key = model.file_keys(), str(place[-1])
        hint = did_you_mean(key, known)
        if key in ToolPolicy.file_keys() and place[0] == "tools":
            hint = ": write it under the tool's key `perdure`"
        if model is ModelOptions and not hint:
            hint = ": write it under `additionalProperties` to send it"
        if hint or model not in _FREE:
            yield warning(
                place,
                f"unknown property {key!r} has no effect{hint or '. Expected ' + ', '.join(known)}",
            )


_FREE = (Connection, CustomTool)
"""These may have other fields, for other code."""


def _bindings(asset: JsonView) -> Iterator[Finding]:
    inputs = names_of(asset.get("inputs"))
    for place, tool, source in bindings_of(asset):
        parameter = str(place[-1])
        if source not in inputs:
            yield Finding(
                place, f"the input {source!r} is not declared{did_you_mean(source, inputs)}"
            )
        parameters = names_of(tool.get("parameters"))
        if parameters and parameter not in parameters:
            hint = did_you_mean(parameter, parameters)
            yield warning(place, f"the tool has no parameter {parameter!r}{hint}")


def _own_metadata(asset: JsonView) -> Iterator[Finding]:
    """Yield the errors of the settings there, except those that depend on an environment
    variable.
    """
    metadata = asset.get("metadata")
    unset = {place for place, text in strings(metadata, ("metadata",)) if is_unset(text)}
    for place, text, is_fatal in setting_problems(metadata):
        if place not in unset:
            yield Finding(place, text) if is_fatal else warning(place, text)


def _environment(place: Place, text: str, named: frozenset[Place]) -> Iterator[Finding]:
    reference = text.reference if isinstance(text, FromEnvironment) else ""
    if env_value(reference) is None:
        yield warning(place, f"Environment variable '{env_name(reference)}' not set")
    if has_secret_default(place, reference, named):
        yield Finding(place, DEFAULT_SECRET)


def _literal(place: Place, text: str, named: frozenset[Place]) -> Iterator[Finding]:
    is_recorded = place[0] != "metadata" or place[:3] == DELEGATES
    if is_recorded and is_literal_secret(place, text, named) and "parameters" not in place:
        yield Finding(place, LITERAL_SECRET)
    reference = _REFERENCE.search(text)
    if credential_id(text):
        if not takes_credential(place):
            yield warning(
                place, f"{text} stays as it is: credentials are for connections and options"
            )
    elif reference and not is_env_reference(text):
        yield warning(place, f"{reference[0]} stays as it is: only a whole string is a reference")
