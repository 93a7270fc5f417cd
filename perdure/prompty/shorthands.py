"""Expands the short ways to write parts of an asset to the one canonical form (§2.3, §2.6 to §2.8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..agent import DEFAULT_PROVIDER, Agent
from ..model_names import split_model
from .places import Place
from .property_kinds import PRESENT_NAMES, kind_of

_KNOWN = frozenset(Agent.file_keys())


class Shorthands:
    """Expands the shorthands of one asset, and remembers where the author wrote what, for messages.

    A value in a shape that no shorthand has is left as it is: validation says what is wrong with it.
    """

    def __init__(self) -> None:
        self._written: dict[Place, str | int] = {}

    def expand(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The asset's canonical form: lists of named things, `{id}`, `{kind}` and `{input}` maps, both templates."""
        asset = {key: value for key, value in data.items() if key in _KNOWN}
        asset["metadata"] = _metadata(data)
        asset["model"] = _model(data.get("model"))
        asset["inputs"] = self._properties(data.get("inputs"), ("inputs",), values=True)
        asset["outputs"] = self._properties(data.get("outputs"), ("outputs",))
        asset["tools"] = self._named(data.get("tools"), ("tools",), self._tool)
        asset["template"] = _template(data.get("template"))
        return {key: value for key, value in asset.items() if value is not None}

    def written(self, place: Place) -> Place:
        """The place that the author knows for a place in the canonical form."""
        return tuple(self._written.get(place[: end + 1], step) for end, step in enumerate(place))

    def _named(self, value: Any, place: Place, expand: Callable[[Any, Place], Any]) -> Any:
        """A list of named things, from such a list or from a map by name."""
        if isinstance(value, list):
            return [expand(item, (*place, index)) for index, item in enumerate(value)]
        if not isinstance(value, Mapping):
            return value
        self._written.update({(*place, index): name for index, name in enumerate(value)})
        items = [(name, expand(item, (*place, index))) for index, (name, item) in enumerate(value.items())]
        return [{**item, "name": name} if isinstance(item, Mapping) else item for name, item in items]

    def _properties(self, value: Any, place: Place, *, values: bool = False) -> Any:
        """A list of properties. With `values`, a map without `kind` is an object's default value (§2.6)."""
        if isinstance(value, Mapping):
            value = {name: _property_of(spec, values=values) for name, spec in value.items()}
        return self._named(value, place, self._property)

    def _property(self, spec: Any, place: Place) -> Any:
        if not isinstance(spec, Mapping):
            return spec
        expanded = dict(spec)
        kind = expanded.get("kind")
        if kind is None:
            expanded["kind"] = kind_of(spec.get("default"))
        elif isinstance(kind, str):
            expanded["kind"] = PRESENT_NAMES.get(kind, kind)
        if "items" in spec:
            expanded["items"] = self._property(spec["items"], (*place, "items"))
        for key in ("properties", "oneOf", "anyOf"):
            if key in spec:
                expanded[key] = self._properties(spec[key], (*place, key))
        return expanded

    def _tool(self, tool: Any, place: Place) -> Any:
        if not isinstance(tool, Mapping):
            return tool
        expanded = dict(tool)
        if "parameters" in tool:
            expanded["parameters"] = self._properties(tool["parameters"], (*place, "parameters"))
        if "approvalMode" in tool:
            expanded["approvalMode"] = _wrapped("kind", tool["approvalMode"])
        if "bindings" in tool:
            expanded["bindings"] = self._bindings(tool["bindings"], (*place, "bindings"))
        return expanded

    def _bindings(self, value: Any, place: Place) -> Any:
        """A map by parameter, from such a map or from a list of `{name, input}`."""
        if isinstance(value, list) and all(isinstance(item, Mapping) and "name" in item for item in value):
            self._written.update({(*place, str(item["name"])): index for index, item in enumerate(value)})
            return {str(item["name"]): {key: item[key] for key in item if key != "name"} for item in value}
        if isinstance(value, Mapping):
            return {name: _wrapped("input", binding) for name, binding in value.items()}
        return value


def _model(value: Any) -> Any:
    """A model, from `ID` or `PROVIDER/ID` too, and those of its `fallback`, which share what they do not say."""
    if isinstance(value, str):
        provider, id = split_model(value)
        # The text itself, where it is the id: it may be a reference.
        return {"id": value} if provider is None else {"provider": provider, "id": id}
    if not isinstance(value, Mapping) or value.get("fallback") is None:
        return value
    others = value["fallback"]
    listed = others if isinstance(others, list) else [others]
    return {**value, "fallback": [_other_model(_model(other), value) for other in listed]}


def _other_model(other: Any, model: Mapping[str, Any]) -> Any:
    if not isinstance(other, Mapping):
        return other
    provider = model.get("provider") or DEFAULT_PROVIDER
    options = model.get("options")
    if other.get("provider", provider) == provider:
        shared = {key: model[key] for key in ("provider", "apiType", "connection", "options") if key in model}
    elif isinstance(options, Mapping):
        shared = {"options": {key: options[key] for key in options if key != "additionalProperties"}}
    else:
        shared = {}
    return {**shared, **other}


def _property_of(spec: Any, *, values: bool) -> Any:
    if isinstance(spec, Mapping) and ("kind" in spec or not values):
        return spec
    return {"kind": kind_of(spec), "default": spec}


def _wrapped(key: str, value: Any) -> Any:
    return {key: value} if isinstance(value, str) else value


def _template(value: Any) -> Any:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        return value
    return {key: _wrapped("kind", part) for key, part in value.items() if part is not None}


def _metadata(data: Mapping[str, Any]) -> Any:
    """The metadata, together with the top-level keys that have no meaning of their own (§2.2)."""
    unknown = {key: value for key, value in data.items() if key not in _KNOWN and key != "kind"}
    metadata = data.get("metadata")
    if not unknown or not isinstance(metadata, Mapping | None):
        return metadata
    return {**unknown, **(metadata or {})}
