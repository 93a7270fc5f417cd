"""An OpenAPI document: reads its text within limits, follows its references, and checks its
objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from ...errors import LoadError
from ...json_types import JsonView
from ...text import fault_text

MAX_BYTES = 16 * 2**20
"""Limit for one document."""
MAX_VALUES = 500_000
"""Limit for one document: a value takes some hundred bytes of memory."""
_MAX_REFERENCES = 32
"""Maximum length of a chain of references."""
_SWAGGER = "Swagger 2.0 is not read: convert it to OpenAPI 3 (for instance by editor.swagger.io)"


class SpecificationError(ValueError):
    """A specification can't be used; the text has the reason and the remedy."""


class _Object(BaseModel):
    """An object of the specification: the fields that perdure reads. A null counts as absent."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        if not isinstance(value, Mapping | None):
            raise ValueError("expected an object")
        return {key: each for key, each in (value or {}).items() if each is not None}


class MediaType(_Object):
    schema_: Any = Field(default={}, alias="schema")
    encoding: dict[str, dict[str, Any]] = {}


class ParameterObject(_Object):
    name: str
    place: str = Field(alias="in")
    required: bool = False
    description: str = ""
    schema_: Any = Field(default={}, alias="schema")
    content: dict[str, MediaType] = {}
    style: str = ""
    explode: bool | None = None


class RequestBody(_Object):
    required: bool = False
    description: str = ""
    content: dict[str, MediaType] = {}


class SecurityScheme(_Object):
    type: str = ""
    scheme: str = ""
    place: str = Field(default="", alias="in")
    name: str = ""


class Variable(_Object):
    default: str | None = None


class ServerObject(_Object):
    url: str = "/"
    variables: dict[str, Variable] = {}


class OperationNames(_Object):
    operation_id: str = ""
    tags: list[str] = []


class OperationObject(OperationNames):
    summary: str = ""
    description: str = ""
    deprecated: bool = False
    parameters: list[Any] = []
    request_body: Any = None
    security: list[dict[str, Any]] | None = None
    servers: list[ServerObject] = []


class PathItem(_Object):
    parameters: list[Any] = []
    servers: list[ServerObject] = []


class Components(_Object):
    security_schemes: dict[str, Any] = {}


class Root(_Object):
    openapi: str = ""
    paths: dict[Any, Any] = {}
    components: Components = Components()
    security: list[dict[str, Any]] | None = None
    servers: list[ServerObject] = []


Model = TypeVar("Model", bound=BaseModel)


class Document:
    """A specification in one document."""

    def __init__(self, content: Any) -> None:
        """Raises SpecificationError for a value that is not an OpenAPI document."""
        found = content.get("openapi") if isinstance(content, Mapping) else None
        if not isinstance(found, str) or not re.match(r"3\.\d", found):
            is_old = isinstance(content, Mapping) and "swagger" in content
            why = _SWAGGER if is_old else f"its `openapi` is {found!r:.40}"
            raise SpecificationError(
                f"the document is not an OpenAPI 3 specification: {why}. Expected `openapi: 3.x.y`"
            )
        self.content: JsonView = content
        self.is_30 = found.startswith("3.0")
        resource = DRAFT202012.create_resource(content)
        self._resolver = Registry[Any]().with_resource("", resource).resolver()
        self.root = self.read(Root, content, "the document")

    def resolve(self, reference: str) -> Any:
        """Return the target of a `$ref`. Raises SpecificationError."""
        if not reference.startswith("#"):
            raise SpecificationError(
                f"`$ref: {reference:.200}` leads to another document: bundle the specification "
                "into one (for instance by `npx @redocly/cli bundle`)"
            )
        try:
            return self._resolver.lookup(reference).contents
        except (Unresolvable, ValueError, TypeError, AttributeError):
            raise SpecificationError(f"`$ref: {reference:.200}` leads nowhere") from None

    def follow(self, value: Any) -> Any:
        """Return the value with a `$ref` replaced by its target. Raises SpecificationError."""
        for _ in range(_MAX_REFERENCES):
            reference = value.get("$ref") if isinstance(value, Mapping) else None
            if not isinstance(reference, str):
                return value
            value = self.resolve(reference)
        raise SpecificationError(f"`$ref: {reference:.200}` leads in a circle")

    def read(self, model: type[Model], value: Any, place: str) -> Model:
        """Return an object of the specification, or the one that it refers to. Raises
        SpecificationError.
        """
        try:
            return model.model_validate(self.follow(value))
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            where = ".".join(map(str, [place, *fault["loc"]]))
            text = f"{where}: {fault_text(fault)}, got {fault['input']!r:.60}"
            raise SpecificationError(text) from None


def read_document(text: str, name: str) -> Any:
    """Return the value of a JSON or YAML text; `name` is its name in messages. Raises
    SpecificationError.
    """
    from ...prompty.asset_file import read_yaml

    text = text.lstrip("\ufeff")
    try:
        if text.lstrip().startswith(("{", "[")):
            return _json_value(text)
        return read_yaml(text, max_values=MAX_VALUES)[0]
    except LoadError as error:
        place = f"{name}:{error.line}" if error.line else name
        raise SpecificationError(f"{place} is not valid YAML: {error.message}") from None
    except (ValueError, RecursionError) as error:
        raise SpecificationError(f"{name} is not valid JSON: {error}") from None


def _json_value(text: str) -> Any:
    if text.count("[") + text.count("{") <= MAX_VALUES:
        value = json.loads(text, parse_constant=_refuse)
        if _values_in(value) <= MAX_VALUES:
            return value
    raise ValueError(f"it has more than {MAX_VALUES:,} values")


def _values_in(content: Any) -> int:
    count, row = 0, [content]
    while row:
        value = row.pop()
        count += 1
        if isinstance(value, dict):
            row += value.values()
        elif isinstance(value, list):
            row += value
    return count


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON value")
