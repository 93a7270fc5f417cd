"""Flattens all inputs of an operation into one set of arguments: parameters of every place, and the
body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from ...json_types import JsonObject
from .document import Document, MediaType, ParameterObject, RequestBody, SpecificationError
from .operation import Body, FormField, Parameter, Place
from .schemas import SchemaWriter

IDEMPOTENCY_KEY = "idempotency-key"
_PLACES: tuple[str, ...] = get_args(Place)
_STYLES = {
    "path": ("simple",),
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
_PLAIN_OBJECT = frozenset(
    {"type", "properties", "required", "title", "description", "additionalProperties", "format"}
)
_MEDIA = ("json", "application/x-www-form-urlencoded", "multipart/form-data", "text/", "")
"""The kinds of bodies, in order of preference."""


class Arguments:
    """Collects the arguments of one operation, and the way each is sent."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._writer = SchemaWriter(document)
        self._properties: JsonObject = {}
        self._required: list[str] = []
        self.parameters: list[Parameter] = []
        self.body: Body | None = None
        self.key_header: str | None = None

    def schema(self) -> JsonObject:
        """Return the JSON Schema of all the arguments. Raises SpecificationError."""
        schema: JsonObject = {"type": "object", "properties": self._properties}
        if self._required:
            schema["required"] = self._required
        return self._writer.complete(schema)

    def add_parameters(
        self, declared: Iterable[ParameterObject], keys: frozenset[tuple[str, str]]
    ) -> None:
        """Add parameters, in the order of path, query, header, cookie; `keys` are places and names
        of keys.

        Of two parameters with one name in different places, the later one becomes `PLACE_NAME`.
        Raises SpecificationError.
        """
        known = [each for each in declared if each.place in _PLACES]
        for each in sorted(known, key=lambda each: _PLACES.index(each.place)):
            name, is_header = each.name.lower(), each.place == "header"
            if is_header and name == IDEMPOTENCY_KEY:
                self.key_header = each.name
            elif (each.place, name) not in keys and not (
                is_header and _NOT_ARGUMENTS.fullmatch(name)
            ):
                self._add_parameter(each)

    def _add_parameter(self, declared: ParameterObject) -> None:
        place, name = declared.place, declared.name
        if place in ("header", "cookie") and not _TOKEN.fullmatch(name):
            raise SpecificationError(
                f"the {place} parameter {name!r} has a name that no {place} can have"
            )
        media, content = next(iter(declared.content.items()), (None, None))
        style = declared.style or _STYLES[place][0]
        if style not in _STYLES[place]:
            expected = ", ".join(_STYLES[place])
            raise SpecificationError(
                f"the {place} parameter {name!r} has style {style!r}. Expected one of {expected}"
            )
        argument = self._unused_name(name, place)
        parameter = Parameter.model_validate(
            {
                "name": name,
                "in": place,
                "argument": argument,
                "style": style,
                "explode": style == "form" if declared.explode is None else declared.explode,
                "media": media,
            }
        )
        self.parameters.append(parameter)
        schema = self._writer.convert(content.schema_ if content else declared.schema_)
        self._add(
            argument,
            _with_description(schema, declared.description),
            is_required=declared.required or place == "path",
        )

    def add_body(self, declared: RequestBody) -> None:
        """Add the request's body: its properties, unless another argument has one of their names,
        else `body`.

        Raises SpecificationError.
        """
        media, content = _chosen_media(declared.content)
        # Before its references become definitions: only a plain object's properties can become
        # arguments.
        schema = self._document.follow(content.schema_)
        fields = self._fields(media, schema, content)
        converted = _with_files(self._writer.convert(schema), fields)
        if self._is_flat(media, converted):
            properties, required = converted["properties"], converted.get("required", [])
            self.body = Body(media=media, properties=list(properties), fields=fields)
            for name, each in properties.items():
                self._add(name, each, is_required=declared.required and name in required)
            return
        argument = self._unused_name("body", "request")
        is_binary = not _is_text(media) and not fields
        self.body = Body(media=media, argument=argument, fields=fields, is_binary=is_binary)
        described = _with_description(converted or {"type": _kind_of(media)}, declared.description)
        self._add(
            argument,
            _of_base64(described, "the body") if is_binary else described,
            is_required=declared.required,
        )

    def _fields(self, media: str, schema: Any, content: MediaType) -> dict[str, FormField]:
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        if not _is_form(media) or not isinstance(properties, Mapping):
            return {}
        fields: dict[str, FormField] = {}
        for name, declared in properties.items():
            said = content.encoding.get(name)
            is_file = media == "multipart/form-data" and self._is_file(declared)
            if is_file or said:
                style, explode = (said.style, said.explode) if said else ("", None)
                kind = said.content_type.partition(",")[0].strip() if said else ""
                fields[name] = FormField(
                    style=style or None,
                    explode=style in ("", "form") if explode is None else explode,
                    media=kind or None,
                    is_file=is_file,
                )
        return fields

    def _is_file(self, schema: Any) -> bool:
        schema = self._document.follow(schema)
        if isinstance(schema, Mapping) and "items" in schema:
            schema = self._document.follow(schema["items"])
        return isinstance(schema, Mapping) and (
            schema.get("format") == "binary" or "contentMediaType" in schema
        )

    def _is_flat(self, media: str, schema: JsonObject) -> bool:
        names = schema.get("properties") or {}
        return (
            bool(names)
            and schema.get("type", "object") == "object"
            and not schema.keys() - _PLAIN_OBJECT
            and schema.get("additionalProperties", False) is False
            and all(_ARGUMENT.fullmatch(name) and name not in self._properties for name in names)
            and (_is_form(media) or "json" in media)
        )

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


def _chosen_media(content: Mapping[str, MediaType]) -> tuple[str, MediaType]:
    """Return the media type for the body, and its entry in the specification."""
    json = "application/json"
    known = {
        json if "*" in name else name.partition(";")[0].strip().lower(): content[name]
        for name in sorted(content, key=json.__ne__)
    }
    for kind in _MEDIA:
        for name, value in known.items():
            if kind in name:
                return name, value
    raise SpecificationError("the request body has no content")


def _is_form(media: str) -> bool:
    return media in ("application/x-www-form-urlencoded", "multipart/form-data")


def _is_text(media: str) -> bool:
    return re.search(r"json|xml|yaml|^text/", media) is not None or _is_form(media)


def _kind_of(media: str) -> str:
    return "object" if "json" in media or _is_form(media) else "string"


def _with_description(schema: JsonObject, text: str) -> JsonObject:
    """Return the schema with its owner's description, unless it has its own."""
    if not text.strip() or schema.get("description"):
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
