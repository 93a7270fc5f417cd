"""Describes Python types as the properties that make up a tool's declaration (§11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_origin

from pydantic import TypeAdapter

from ..agent import Property, PropertyKind

Schema = Mapping[str, Any]

_KINDS: dict[str, PropertyKind] = {
    "string": "string",
    "integer": "integer",
    "number": "float",
    "boolean": "boolean",
    "array": "array",
    "object": "object",
}


def property_of(name: str, annotation: Any, adapter: TypeAdapter[Any] | None) -> Property:
    """The property that describes a parameter of that type; where the type says nothing, one that accepts anything."""
    schema = adapter.json_schema() if adapter else {}
    described = _property(schema, schema.get("$defs", {}), frozenset())
    return described.model_copy(
        update={"name": name, "description": described.description or _annotated_text(annotation)}
    )


def _annotated_text(annotation: Any) -> str | None:
    """The text of `Annotated[int, "in metres"]`."""
    if get_origin(annotation) is not Annotated:
        return None
    return next((extra for extra in get_args(annotation)[1:] if isinstance(extra, str)), None)


def _property(schema: Schema, definitions: Schema, seen: frozenset[str]) -> Property:
    """`seen` has the definitions around this one: a type that contains itself is described as a plain object there."""
    reference = schema.get("$ref")
    if reference in seen:
        return Property(kind="object", description=schema.get("description"))
    if reference:
        target = definitions[reference.rpartition("/")[2]]
        return _property({**target, **_without(schema, "$ref")}, definitions, seen | {reference})
    described = _alternatives(schema, definitions, seen) or _plain(schema, definitions, seen)
    return described.model_copy(
        update={"description": schema.get("description") or described.description, "default": schema.get("default")}
    )


def _alternatives(schema: Schema, definitions: Schema, seen: frozenset[str]) -> Property | None:
    keyword = "oneOf" if "oneOf" in schema else "anyOf"
    options = [option for option in schema.get(keyword, []) if option != {"type": "null"}]
    if not options:
        return None
    nullable = len(options) < len(schema[keyword])
    properties = [_property(option, definitions, seen) for option in options]
    if len(properties) == 1:
        return properties[0].model_copy(update={"nullable": nullable or properties[0].nullable})
    union = {"one_of": properties} if keyword == "oneOf" else {"any_of": properties}
    return Property(kind="union", nullable=nullable, **union)


def _plain(schema: Schema, definitions: Schema, seen: frozenset[str]) -> Property:
    values = schema.get("enum") or ([schema["const"]] if "const" in schema else None)
    if values:
        return Property(kind=_kind_of_value(values[0]), enum_values=list(values))
    kind = _KINDS.get(schema.get("type", ""))
    if kind is None:
        return _anything()
    described = Property(kind=kind)
    if kind == "array" and schema.get("items"):
        described.items = _property(schema["items"], definitions, seen)
    if kind == "object" and schema.get("properties"):
        required = schema.get("required", [])
        described.properties = [
            _property(member, definitions, seen).model_copy(update={"name": name, "required": name in required})
            for name, member in schema["properties"].items()
        ]
    return described


def _kind_of_value(value: Any) -> PropertyKind:
    if isinstance(value, bool):
        return "boolean"
    return "integer" if isinstance(value, int) else "float" if isinstance(value, float) else "string"


def _anything() -> Property:
    kinds: tuple[PropertyKind, ...] = ("string", "float", "boolean", "array", "object")
    return Property(kind="union", any_of=[Property(kind=kind) for kind in kinds])


def _without(schema: Schema, key: str) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != key}
