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
    """What the template, the model or the function calls it."""
    kind: PropertyKind = "string"
    """The type of its value. `thread` is a list of messages; `image`, `file` and `audio` are media."""
    description: str | None = None
    """What the model is told of it."""
    required: bool = Field(default=False, exclude_if=operator.not_)
    """Whether a value must be given; one with a `default` never has to be."""
    default: Any = None
    """The value where none is given."""
    example: Any = None
    """A value that shows what is meant; nothing reads it at run time."""
    enum_values: list[Any] | None = None
    """The only values that it may have."""
    nullable: bool = Field(default=False, exclude_if=operator.not_)
    """Whether `null` is a value of it."""
    items: Property | None = None
    """Of an `array`: what each item is."""
    properties: list[Property] | None = None
    """Of an `object`: its properties."""
    one_of: list[Property] | None = None
    """Of a `union`: the value fits exactly one of these."""
    any_of: list[Property] | None = None
    """Of a `union`: the value fits at least one of these."""


class Connection(Node):
    """How to reach a model or a tool server (§2.4). Which fields apply depends on `kind`."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")

    kind: Literal["key", "reference", "remote", "anonymous", "foundry", "oauth"] = "key"
    """How the far end knows who calls: by a key, by a connection registered under a name, or not at all."""
    authentication_mode: str | None = None
    """For whoever reads the file; nothing depends on it."""
    usage_description: str | None = None
    """For whoever reads the file; nothing depends on it."""
    endpoint: str | None = None
    """The base URL. Without one, the provider's own."""
    api_version: str | None = None
    """Of a resource of Azure: the version of its API, such as `2024-10-21`."""
    api_key: str | None = Field(default=None, repr=False)
    """The key, as a reference: `${env:NAME}` or `${credential:ID}`. It is resolved on the worker."""
    name: str | None = None
    """Of a `reference`: the name under which a connection is registered."""
    target: str | None = None
    """Of a `reference`: what it leads to, for whoever reads the file."""
    connection_type: str | None = None
    """Of a `foundry` connection: its type there."""
    client_id: str | None = None
    """Of `oauth`: the client that asks for a token."""
    client_secret: str | None = Field(default=None, repr=False)
    """Of `oauth`: that client's secret, as a reference."""
    token_url: str | None = None
    """Of `oauth`: where a token is asked for."""
    scopes: list[str] | str | None = None
    """Of `oauth`: what the token is asked for."""


class Binding(Node):
    """Gives a tool parameter the value of an input of the run; the model does not see it (§2.8)."""

    input: str
    """The name of an input of the agent."""
