"""The parts of a `.prompty` file that others are made of: properties, connections, bindings (§2)."""

from __future__ import annotations

import operator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

PropertyKind = Literal[
    "string", "integer", "float", "boolean", "array", "object", "union", "thread", "image", "file", "audio"
]
RICH_KINDS = frozenset({"thread", "image", "file", "audio"})


class Node(BaseModel):
    """A part of the file, with Python names here and camelCase names in files and JSON."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, validate_assignment=False, extra="allow")

    @classmethod
    def file_keys(cls) -> list[str]:
        """The names of the fields in files."""
        return [field.alias or name for name, field in cls.model_fields.items()]


class Property(Node):
    """An input, an output, or a tool parameter (§2.6)."""

    name: str = ""
    kind: PropertyKind = "string"
    description: str | None = None
    required: bool = Field(default=False, exclude_if=operator.not_)
    default: Any = None
    example: Any = None
    enum_values: list[Any] | None = None
    nullable: bool = Field(default=False, exclude_if=operator.not_)
    items: Property | None = None
    properties: list[Property] | None = None
    one_of: list[Property] | None = None
    any_of: list[Property] | None = None


class Connection(Node):
    """How to reach a model or a tool server (§2.4). Which fields apply depends on `kind`."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")

    kind: Literal["key", "reference", "remote", "anonymous", "foundry", "oauth"] = "key"
    authentication_mode: str | None = None
    usage_description: str | None = None
    endpoint: str | None = None
    api_key: str | None = Field(default=None, repr=False)
    name: str | None = None
    target: str | None = None
    connection_type: str | None = None
    client_id: str | None = None
    client_secret: str | None = Field(default=None, repr=False)
    token_url: str | None = None
    scopes: list[str] | str | None = None


class Binding(Node):
    """Gives a tool parameter the value of an input of the run; the model does not see it (§2.8)."""

    input: str
