"""Expands the short forms of an asset to the canonical one (§2.3, §2.6 to §2.8); paths and fields
of an asset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, get_args

from ..agents import DEFAULT_PROVIDER, Agent, split_model
from ..arguments import Place
from ..declared_tools import PropertyKind
from ..errors import LoadError
from ..json_types import JsonObject, JsonView
from ..toolsets import with_filter, with_prefix


def pointer(place: Place) -> str:
    """Return the place as a JSON pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in place)


def last_name(place: Place) -> str:
    """Return the innermost step that is a name, not an index; "" if there is none."""
    return next((step for step in reversed(place) if isinstance(step, str)), "")


def strings(value: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Yield each string in nested maps and lists, except keys, with its place."""
    if isinstance(value, str):
        yield place, value
    for step, child in _children(value):
        yield from strings(child, (*place, step))


def map_strings(value: Any, change: Callable[[Place, str], Any], place: Place = ()) -> Any:
    """Copy of nested maps and lists in which `change` has replaced every string. Raises the errors
    of `change`.
    """
    if isinstance(value, str):
        return change(place, value)
    if isinstance(value, Mapping):
        return {key: map_strings(child, change, (*place, key)) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [map_strings(child, change, (*place, index)) for index, child in enumerate(value)]
    return value


def maps_in(value: Any, place: Place = ()) -> list[tuple[Place, JsonView]]:
    """Return the maps in a list, each with its place; [] for a value that is not a list."""
    items = enumerate(value) if isinstance(value, list) else ()
    return [((*place, index), item) for index, item in items if isinstance(item, Mapping)]


def nearest(place: Place, lines: Mapping[Place, int]) -> int | None:
    """Return the line of the place, or of the closest enclosing value whose line is known."""
    for end in range(len(place), -1, -1):
        if place[:end] in lines:
            return lines[place[:end]]
    return None


def _children(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        yield from enumerate(value)


_NAMES = {
    **{"number": "float", "double": "float", "str": "string", "int": "integer", "bool": "boolean"},
    **{"list": "array", "dict": "object"},
}
"""A name for a kind in files → the kind."""
_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "float"),
    (list, "array"),
    (Mapping, "object"),
)


def kind_of(value: Any) -> str:
    """Return the property kind of a plain value (§2.6); "string" for None."""
    return next((kind for python_type, kind in _KINDS if isinstance(value, python_type)), "string")


def kind_named(name: Any) -> str | None:
    """Return the property kind of a name in files, such as `List[str]`; None for a name without a
    kind.
    """
    found = name.partition("[")[0].strip().lower() if isinstance(name, str) else ""
    return _NAMES.get(found) or (found if found in get_args(PropertyKind) else None)


TOOLSET = "toolset"
"""The kind of an entry that expands to a list of tools."""
Fail = Callable[[LoadError, Place], None]
"""Takes an error and its place: raises it, or notes it and continues."""
_KNOWN = frozenset(Agent.file_keys())


class Shorthands:
    """Expands the shorthands of one asset, and remembers the author's places, for messages.

    A value in a shape that no shorthand has stays unchanged: validation reports its error.
    """

    def __init__(self, fail: Fail) -> None:
        """Errors of a toolset go to `fail`."""
        self._written: dict[Place, str | int] = {}
        self._fail = fail
        self._has_answer = False

    def expand(self, data: JsonView) -> JsonObject:
        """Return the asset's canonical form: lists of named things, `{id}`, `{kind}` and `{input}`
        maps, both templates.
        """
        asset = {key: value for key, value in data.items() if key in _KNOWN}
        asset["metadata"] = _metadata(data)
        asset["model"] = _model(data.get("model"))
        asset["inputs"] = self._properties(data.get("inputs"), ("inputs",), values=True)
        asset["outputs"] = self._properties(data.get("outputs"), ("outputs",))
        asset["tools"] = self._tools(data.get("tools"))
        if isinstance(answer := answer_in(data), Mapping) and not asset["outputs"]:
            self._has_answer = True
            asset["outputs"] = [{**self._property(answer, ("outputs", 0)), "name": ""}]
        asset["template"] = _template(data.get("template"))
        return {key: value for key, value in asset.items() if value is not None}

    def written_path(self, place: Place) -> Place:
        """Return the author's place for a place in the canonical form."""
        written = tuple(self._written.get(place[: end + 1], step) for end, step in enumerate(place))
        return (
            (*ANSWER, *written[2:]) if self._has_answer and place[:1] == ("outputs",) else written
        )

    def _tools(self, value: Any) -> Any:
        """Return a list of tools, with each toolset replaced by its tools."""
        items: list[tuple[Any, Any]] = list(
            value.items() if isinstance(value, Mapping) else enumerate(_as_list(value))
        )
        if not any(_is_toolset(tool) for _, tool in items):
            return self._list_named(value, ("tools",), self._tool)
        if isinstance(value, Mapping):
            items = [
                (name, {**tool, "name": name} if isinstance(tool, Mapping) else tool)
                for name, tool in items
            ]
        found = [
            (step, each) for step, tool in items for each in self._members(tool, ("tools", step))
        ]
        self._written.update({("tools", new): step for new, (step, _) in enumerate(found)})
        return [self._tool(tool, ("tools", new)) for new, (_, tool) in enumerate(found)]

    def _members(self, tool: Any, place: Place) -> list[Any]:
        """Return the tools of a toolset, with its prefix and filters applied; any other tool
        alone.
        """
        if not _is_toolset(tool):
            return [tool]
        members = [
            each for listed in _as_list(tool.get("tools")) for each in self._members(listed, place)
        ]
        policy = tool.get("perdure") or {}
        try:
            if not members or not all(isinstance(each, Mapping) for each in members):
                raise ValueError("expected a list of tools in `tools`, such as ${file:tools.yaml}")
            if unknown := set(policy) - {"prefix", "allowedTools", "deniedTools"}:
                raise ValueError(
                    f"a toolset has no perdure.{min(unknown)}: expected prefix, allowedTools, "
                    "deniedTools"
                )
            for key, keeps in (("allowedTools", True), ("deniedTools", False)):
                if key in policy:
                    members = with_filter(members, policy[key], keeps=keeps)
        except ValueError as error:
            self._fail(LoadError(str(error)), place)
        return (
            [with_prefix(each, policy["prefix"]) for each in members]
            if "prefix" in policy
            else members
        )

    def _list_named(self, value: Any, place: Place, expand: Callable[[Any, Place], Any]) -> Any:
        """Return a list of named things, from such a list or from a map by name."""
        if isinstance(value, list):
            return [expand(item, (*place, index)) for index, item in enumerate(value)]
        if not isinstance(value, Mapping):
            return value
        self._written.update({(*place, index): name for index, name in enumerate(value)})
        items = [
            (name, expand(item, (*place, index)))
            for index, (name, item) in enumerate(value.items())
        ]
        return [
            {**item, "name": name} if isinstance(item, Mapping) else item for name, item in items
        ]

    def _properties(self, value: Any, place: Place, *, values: bool = False) -> Any:
        """Return a list of properties. With `values`, a map without `kind` is an object's default
        value (§2.6).
        """
        if isinstance(value, Mapping):
            value = {name: _property_of(spec, values=values) for name, spec in value.items()}
        return self._list_named(value, place, self._property)

    def _property(self, spec: Any, place: Place) -> Any:
        if not isinstance(spec, Mapping):
            return spec
        expanded = dict(spec)
        kind = expanded.get("kind")
        expanded["kind"] = (
            kind_of(spec.get("default")) if kind is None else kind_named(kind) or kind
        )
        for key in ("items", "values"):
            if key in spec:
                expanded[key] = self._property(spec[key], (*place, key))
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
            expanded["approvalMode"] = _wrap("kind", tool["approvalMode"])
        if "bindings" in tool:
            expanded["bindings"] = self._bindings(tool["bindings"], (*place, "bindings"))
        return expanded

    def _bindings(self, value: Any, place: Place) -> Any:
        """Return a map by parameter, from such a map or from a list of `{name, input}`."""
        if isinstance(value, list) and all(
            isinstance(item, Mapping) and "name" in item for item in value
        ):
            self._written.update(
                {(*place, str(item["name"])): index for index, item in enumerate(value)}
            )
            return {
                str(item["name"]): {key: item[key] for key in item if key != "name"}
                for item in value
            }
        if isinstance(value, Mapping):
            return {name: _wrap("input", binding) for name, binding in value.items()}
        return value


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_toolset(tool: Any) -> bool:
    return isinstance(tool, Mapping) and tool.get("kind") == TOOLSET


def _model(value: Any) -> Any:
    """Return a model, also from `ID` or `PROVIDER/ID`, with its `fallback`, whose models inherit
    its other fields.
    """
    if isinstance(value, str):
        provider, id = split_model(value)
        # The text itself, if it is the id: it may be a reference.
        return {"id": value} if provider is None else {"provider": provider, "id": id}
    if not isinstance(value, Mapping):
        return value
    value = _with_provider(value)
    if value.get("fallback") is None:
        return value
    others = value["fallback"]
    listed = others if isinstance(others, list) else [others]
    return {**value, "fallback": [_other_model(_model(other), value) for other in listed]}


def _with_provider(model: JsonView) -> JsonView:
    """Return a model with both fields, from an id in the form `PROVIDER:ID`. An id with a `/` may
    be complete at a server.
    """
    id = model.get("id")
    provider, rest = (
        split_model(id) if isinstance(id, str) and "/" not in id.partition(":")[0] else (None, "")
    )
    is_spelt = (
        provider is not None
        and f"{provider}:{rest}" == id
        and model.get("provider", provider) == provider
    )
    return {**model, "provider": provider, "id": rest} if is_spelt else model


def _other_model(other: Any, model: JsonView) -> Any:
    if not isinstance(other, Mapping):
        return other
    provider = model.get("provider") or DEFAULT_PROVIDER
    options = model.get("options")
    if other.get("provider", provider) == provider:
        shared = {
            key: model[key]
            for key in ("provider", "apiType", "connection", "options")
            if key in model
        }
    elif isinstance(options, Mapping):
        shared = {
            "options": {key: options[key] for key in options if key != "additionalProperties"}
        }
    else:
        shared = {}
    return {**shared, **other}


def _property_of(spec: Any, *, values: bool) -> Any:
    if isinstance(spec, Mapping) and ("kind" in spec or not values):
        return spec
    return {"kind": kind_of(spec), "default": spec}


ANSWER: Place = ("metadata", "perdure", "output")
"""The place of an answer's type, if it is not an object with members."""


def answer_in(data: JsonView) -> Any:
    """Return that property; None if there is none."""
    found: Any = data
    for key in ANSWER:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _wrap(key: str, value: Any) -> Any:
    return {key: value} if isinstance(value, str) else value


def _template(value: Any) -> Any:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        return value
    return {key: _wrap("kind", part) for key, part in value.items() if part is not None}


def _metadata(data: JsonView) -> Any:
    """Return the metadata, together with the top-level keys that have no meaning of their own
    (§2.2).
    """
    unknown = {key: value for key, value in data.items() if key not in _KNOWN and key != "kind"}
    metadata = data.get("metadata")
    if not unknown or not isinstance(metadata, Mapping | None):
        return metadata
    return {**unknown, **(metadata or {})}
