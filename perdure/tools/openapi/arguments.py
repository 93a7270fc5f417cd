"""Flattens all inputs of an operation into one set of arguments: parameters of every place, and the
body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...json_types import JsonObject, JsonView
from .document import SpecificationError, as_list, as_map, as_text
from .operation import Body, FormField, Parameter
from .schemas import SchemaWriter

Located = tuple[JsonView, str]
"""A value of a document, and the document's URI."""

IDEMPOTENCY_KEY = "idempotency-key"
_STYLES = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
"""Place → its possible styles; the first is the default."""
_NOT_ARGUMENTS = re.compile(
    r"accept|content-type|authorization|host|content-length|content-encoding|transfer-encoding|connection|cookie|te"
    r"|trailer|upgrade|expect|idempotency-key|proxy-.*",
    re.IGNORECASE,
)
"""Headers that the model does not write, whatever a specification says."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_JSON = "application/json"
_PLAIN_OBJECT = {
    "type",
    "properties",
    "required",
    "title",
    "description",
    "additionalProperties",
    "format",
}
_MAX_PARTS = 8
"""Levels of nested `allOf`."""
_MEDIA = ("json", "application/x-www-form-urlencoded", "multipart/form-data", "text/", "")
"""The kinds of bodies, in order of preference."""


class Arguments:
    """Collects the arguments of one operation, and the way each is sent."""

    def __init__(self, writer: SchemaWriter) -> None:
        self._writer = writer
        self._properties: JsonObject = {}
        self._required: list[str] = []
        self._together: dict[str, list[str]] = {}
        """Argument → the arguments that it requires: the required properties of an optional body,
        once it is present.
        """
        self.parameters: list[Parameter] = []
        self.body: Body | None = None
        self.key_header: str | None = None

    def schema(self) -> JsonObject:
        """Return the JSON Schema of all the arguments. Raises SpecificationError."""
        schema: JsonObject = {"type": "object", "properties": self._properties}
        if self._required:
            schema["required"] = self._required
        if self._together:
            schema["dependentRequired"] = self._together
        return self._writer.complete(schema)

    def add_parameters(self, declared: Iterable[Located], keys: frozenset[tuple[str, str]]) -> None:
        """Add parameters, in the order of path, query, header, cookie; `keys` are places and names
        of keys.

        Of two parameters with one name in different places, the later one becomes `PLACE_NAME`.
        Raises SpecificationError.
        """
        order = list(_STYLES)
        known = [(value, base) for value, base in declared if _place(value) in order]
        for value, base in sorted(known, key=lambda each: order.index(_place(each[0]))):
            place, name = _place(value), as_text(value.get("name"), "a parameter's name")
            if place == "header" and name.lower() == IDEMPOTENCY_KEY:
                self.key_header = name
            elif (place, name.lower()) not in keys and not (
                place == "header" and _NOT_ARGUMENTS.fullmatch(name)
            ):
                self._add_parameter(value, base, place, name)

    def _add_parameter(self, value: JsonView, base: str, place: Any, name: str) -> None:
        if place in ("header", "cookie") and not _TOKEN.fullmatch(name):
            raise SpecificationError(
                f"the {place} parameter {name!r} has a name that no {place} can have"
            )
        schema, media = value.get("schema"), None
        if isinstance(value.get("content"), Mapping) and value["content"]:
            media, content = next(iter(value["content"].items()))
            schema = as_map(content, "a parameter's content").get("schema")
        style = as_text(value.get("style"), f"the style of {name!r}", _STYLES[place][0])
        if style not in _STYLES[place]:
            expected = ", ".join(_STYLES[place])
            raise SpecificationError(
                f"the {place} parameter {name!r} has style {style!r}. Expected one of {expected}"
            )
        argument = self._unused_name(name, place)
        self.parameters.append(
            Parameter(
                name=name,
                place=place,
                argument=argument,
                style=style,
                explode=_flag(value.get("explode"), default=style == "form"),
                reserved=value.get("allowReserved") is True,
                media=media,
            )
        )
        converted = self._writer.convert({} if schema is None else schema, base)
        is_required = place == "path" or value.get("required") is True
        self._add(
            argument,
            _with_description(converted, value.get("description")),
            is_required=is_required,
        )

    def add_body(self, declared: JsonView, base: str) -> None:
        """Add the request's body: its properties, unless another argument has one of their names,
        else `body`.

        Raises SpecificationError.
        """
        content = as_map(declared.get("content"), "the request body's content")
        media, value = _chosen_media(content)
        value = as_map(value, f"the request body's content {media!r}")
        is_required = declared.get("required") is True
        # Before its references become definitions: only a plain object's properties can become
        # arguments.
        schema, where = self._writer.follow(value.get("schema", {}), base)
        fields = self._fields(media, schema, where, as_map(value.get("encoding"), "encoding"))
        converted = self._union(schema, where) if "json" in media else None
        converted = _with_files(converted or self._writer.convert(schema, where), fields)
        if self._is_flat(media, converted):
            names = list(converted["properties"])
            self.body = Body(media=media, properties=names, fields=fields)
            needed = converted.get("required", [])
            for name in names:
                self._add(
                    name, converted["properties"][name], is_required=is_required and name in needed
                )
                if not is_required and (others := [each for each in needed if each != name]):
                    self._together[name] = others
            return
        argument = self._unused_name("body", "request")
        is_binary = not _is_text(media) and not fields
        self.body = Body(media=media, argument=argument, fields=fields, is_binary=is_binary)
        text = as_text(declared.get("description"), "the request body's description")
        described = _with_description(converted or {"type": _kind_of(media)}, text)
        self._add(
            argument,
            _of_base64(described, "the body") if is_binary else described,
            is_required=is_required,
        )

    def _union(self, schema: Any, base: str, depth: int = 0) -> JsonObject | None:
        """Return the schema with the parts of its `allOf` merged into one object; None unless they
        are plain objects.
        """
        schema, base = self._writer.follow(schema, base)
        if not isinstance(schema, Mapping) or depth > _MAX_PARTS:
            return None
        merged = self._writer.convert(
            {key: value for key, value in schema.items() if key != "allOf"}, base
        )
        for each in as_list(schema.get("allOf"), "allOf"):
            part = self._union(each, base, depth + 1)
            if part is None or part.keys() - _PLAIN_OBJECT or "additionalProperties" in part:
                return None
            own, others = merged.get("properties", {}), part.get("properties", {})
            if own.keys() & others.keys():
                return None
            required = [*merged.get("required", []), *part.get("required", [])]
            merged = {"type": "object", **part, **merged, "properties": {**own, **others}}
            merged |= {"required": required} if required else {}
        return merged

    def _fields(
        self, media: str, schema: Any, base: str, encoding: JsonView
    ) -> dict[str, FormField]:
        if not _is_form(media) or not isinstance(schema, Mapping):
            return {}
        fields: dict[str, FormField] = {}
        for name, declared in as_map(schema.get("properties"), "properties").items():
            value = self._writer.follow(declared, base)[0]
            said = as_map(encoding.get(name), f"the encoding of {name!r}")
            is_file = media == "multipart/form-data" and self._is_file(value, base)
            kind, style = said.get("contentType"), said.get("style")
            if is_file or kind or style:
                fields[name] = FormField(
                    style=as_text(style, "style") or None,
                    explode=said.get("explode") is not False
                    if style in (None, "form")
                    else said.get("explode") is True,
                    reserved=said.get("allowReserved") is True,
                    media=as_text(kind, "contentType").partition(",")[0].strip() or None,
                    is_file=is_file,
                )
        return fields

    def _is_file(self, schema: Any, base: str) -> bool:
        if not isinstance(schema, Mapping):
            return False
        if "items" in schema:
            return self._is_file(self._writer.follow(schema["items"], base)[0], base)
        return schema.get("format") == "binary" or "contentMediaType" in schema

    def _is_flat(self, media: str, schema: JsonObject) -> bool:
        names = schema.get("properties")
        if not names or schema.get("type", "object") != "object" or schema.keys() - _PLAIN_OBJECT:
            return False
        if schema.get("additionalProperties", False) is not False:
            return False
        fits = all(_ARGUMENT.fullmatch(name) and name not in self._properties for name in names)
        return fits and (_is_form(media) or "json" in media)

    def _add(self, argument: str, schema: JsonObject, *, is_required: bool) -> None:
        self._properties[argument] = schema
        if is_required:
            self._required.append(argument)

    def _unused_name(self, name: str, place: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:64] or place
        argument, number = plain, 1
        while argument in self._properties:
            argument = f"{place}_{plain}"[:60] + ("" if number == 1 else f"_{number}")
            number += 1
        return argument


def _place(value: JsonView) -> str:
    place = value.get("in")
    return place if isinstance(place, str) else ""


def _chosen_media(content: JsonView) -> tuple[str, Any]:
    """Return the media type for the body, and its entry in the specification."""
    if not content:
        raise SpecificationError("the request body has no content")
    known = {
        name.partition(";")[0].strip().lower(): content[name]
        for name in sorted(content, key=_JSON.__ne__)
    }
    for kind in _MEDIA:
        for name, value in known.items():
            if kind in name or (kind == "json" and name in ("*/*", "application/*")):
                return (_JSON if "*" in name else name), value
    raise AssertionError("the last kind is in every name")


def _is_form(media: str) -> bool:
    return media in ("application/x-www-form-urlencoded", "multipart/form-data")


def _is_text(media: str) -> bool:
    return (
        "json" in media
        or "xml" in media
        or "yaml" in media
        or media.startswith("text/")
        or _is_form(media)
    )


def _kind_of(media: str) -> str:
    return "object" if "json" in media or _is_form(media) else "string"


def _flag(value: Any, *, default: bool) -> bool:
    return value if isinstance(value, bool) else default


def _with_description(schema: JsonObject, text: Any) -> JsonObject:
    """Return the schema with its owner's description, unless it has its own."""
    if not isinstance(text, str) or not text.strip() or schema.get("description"):
        return schema
    return {**schema, "description": text.strip()[:2000]}


def _of_base64(schema: JsonObject, what: str) -> JsonObject:
    text = f"{schema.get('description', '')} ({what} as base64)".strip()
    return {"type": "string", "description": text}


def _with_files(schema: JsonObject, fields: Mapping[str, FormField]) -> JsonObject:
    """Return the schema with file properties as base64."""
    properties = dict(schema.get("properties", {}))
    for name in properties.keys() & {name for name, field in fields.items() if field.is_file}:
        declared = properties[name]
        if "items" in declared:
            properties[name] = {**declared, "items": _of_base64({}, "a file")}
        else:
            properties[name] = _of_base64(declared, "the file")
    return {**schema, "properties": properties} if properties else schema
