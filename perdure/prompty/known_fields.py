"""Knows which fields of an asset mean something: all others are kept, and have no effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from ..agent import Agent, Binding, Connection, CustomTool, Node
from .places import Place

FREE = (Connection, CustomTool)
"""These may have fields of somebody else's, for somebody else's code."""


def unknown_fields(asset: Mapping[str, Any]) -> Iterator[tuple[Place, type[Node]]]:
    """The place of each field that its type does not have, and that type. `asset` is in canonical form."""
    return _in_node(asset, Agent, ())


def is_ignored(asset: Mapping[str, Any], place: Place, own_metadata: Any) -> bool:
    """Whether nothing reads what stands at that place of an asset in canonical form.

    `own_metadata` is the metadata without what has come there for want of a meaning of its own.
    """
    if place[0] == "metadata":
        return not isinstance(own_metadata, Mapping) or place[1] not in own_metadata
    ignored = {unknown for unknown, model in unknown_fields(asset) if model not in FREE}
    return any(place[:end] in ignored for end in range(1, len(place) + 1))


def _in_node(value: Mapping[str, Any], model: type[Node], place: Place) -> Iterator[tuple[Place, type[Node]]]:
    known = model.file_keys()
    for key, child in value.items():
        if key in known:
            yield from _in_field(child, _node_types(model, key), (*place, key))
        else:
            yield (*place, key), model


def _in_field(value: Any, types: list[type[Node]], place: Place) -> Iterator[tuple[Place, type[Node]]]:
    """Those of the nodes in a field's value: one node, a list of them, or bindings by name."""
    if isinstance(value, list):
        children: list[tuple[Place, Any]] = [((*place, index), child) for index, child in enumerate(value)]
    elif types == [Binding] and isinstance(value, Mapping):
        children = [((*place, name), child) for name, child in value.items()]
    else:
        children = [(place, value)]
    for where, child in children:
        if types and isinstance(child, Mapping):
            yield from _in_node(child, _type_of(child, types), where)


def _type_of(value: Mapping[str, Any], types: list[type[Node]]) -> type[Node]:
    """The type that has the value's `kind`; the last type takes every other kind."""
    if len(types) == 1:
        return types[0]
    kind = value.get("kind", "function")
    return next((each for each in types if each.model_fields["kind"].default == kind), types[-1])


def _node_types(model: type[Node], key: str) -> list[type[Node]]:
    annotation = next(f.annotation for name, f in model.model_fields.items() if (f.alias or name) == key)
    return list(dict.fromkeys(_nodes_in(annotation)))


def _nodes_in(annotation: Any) -> Iterator[type[Node]]:
    if isinstance(annotation, type) and issubclass(annotation, Node):
        yield annotation
    for argument in get_args(annotation):
        yield from _nodes_in(argument)
