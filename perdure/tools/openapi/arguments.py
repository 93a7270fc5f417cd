"""Flattens all inputs of an operation into one set of arguments: parameters of every place, and the
body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import get_args

from ...json_types import JsonObject
from .document import Document, MediaType, ParameterObject, RequestBody, SpecificationError
from .operation import Body, Parameter, Place
from .schemas import SchemaWriter

IDEMPOTENCY_KEY = "idempotency-key"
_PLACES: tuple[str, ...] = get_args(Place)
_STYLES = {
    "path": ("simple",),
    "query": ("form", "deepObject"),
    "header": ("simple",),
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
_FORM = "application/x-www-form-urlencoded"
_MEDIA = ("json", _FORM, "text/", "xml", "yaml")
"""The kinds of bodies that a model can write, in order of preference."""


class UnwritableBody(SpecificationError):
    """A model can't write the body of an operation; the text has the media types."""


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
        """Add parameters, in the order of path, query, header; `keys` are places and names
        of keys.

        Of two parameters with one name in different places, the later one becomes `PLACE_NAME`.
        Raises SpecificationError.
        """
        known = []
        for each in declared:
            if each.place in _PLACES:
                known.append(each)
            elif each.required:
                raise SpecificationError(
                    f"it requires the {each.place} parameter {each.name!r}, which is not sent"
                )
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
        if place == "header" and not _TOKEN.fullmatch(name):
            raise SpecificationError(f"the header {name!r} has a name that no header can have")
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
        converted = self._writer.convert(self._document.follow(content.schema_))
        styles = {name: each.get("style") for name, each in content.encoding.items()}
        deep = [name for name, style in styles.items() if style == "deepObject"]
        if self._is_flat(media, converted):
            properties, required = converted["properties"], converted.get("required", [])
            self.body = Body(media=media, properties=list(properties), deep=deep)
            for name, each in properties.items():
                self._add(name, each, is_required=declared.required and name in required)
            return
        argument = self._unused_name("body", "request")
        self.body = Body(media=media, argument=argument, deep=deep)
        kind = "object" if "json" in media or media == _FORM else "string"
        described = _with_description(converted or {"type": kind}, declared.description)
        self._add(argument, described, is_required=declared.required)

    def _is_flat(self, media: str, schema: JsonObject) -> bool:
        names = schema.get("properties") or {}
        return (
            bool(names)
            and schema.get("type", "object") == "object"
            and not schema.keys() - _PLAIN_OBJECT
            and schema.get("additionalProperties", False) is False
            and all(_ARGUMENT.fullmatch(name) and name not in self._properties for name in names)
            and (media == _FORM or "json" in media)
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
    there = ", ".join(known) or "no content"
    raise UnwritableBody(
        f"the request body has {there}: a model can write JSON, {_FORM}, text, XML and YAML"
    )


def _with_description(schema: JsonObject, text: str) -> JsonObject:
    """Return the schema with its owner's description, unless it has its own."""
    if not text.strip() or schema.get("description"):
        return schema
    return {**schema, "description": text.strip()[:2000]}
