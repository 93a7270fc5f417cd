"""One operation of an HTTP API: turns a call's arguments into a request. Recorded with the offered
function.
"""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from ...messages import Exchanged

Place = Literal["path", "query", "header"]
IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""Methods that may be repeated (RFC 9110 §9.2.2)."""


class Parameter(Exchanged):
    """A parameter, and the argument that provides it."""

    model_config = ConfigDict(populate_by_name=True)

    name: str
    place: Place = Field(alias="in")
    argument: str
    style: str = "simple"
    explode: bool = False
    media: str | None = None
    """The media type of the value, for a parameter with `content`; such a parameter has no
    style."""


class Body(Exchanged):
    """The request's body."""

    media: str
    """Its media type."""
    argument: str | None = None
    """The argument that is the whole body; None if properties of the body are separate
    arguments."""
    properties: list[str] = []
    """The arguments that are properties of the body."""
    deep: list[str] = []
    """For forms: the properties in the style deepObject."""


class Scheme(Exchanged):
    """How a key is sent, by a security scheme."""

    model_config = ConfigDict(populate_by_name=True)

    id: str
    """The scheme's name in the specification."""
    kind: Literal["apiKey", "basic", "bearer", "unknown"]
    place: Place = Field(default="header", alias="in")
    name: str = ""
    """Name of the parameter or header, for an `apiKey`."""


class Operation(Exchanged):
    """One operation."""

    method: str
    path: str
    """The template, such as `/pets/{petId}`."""
    server: str
    """The URL that the path is appended to: absolute, or relative to `source`."""
    source: str | None = None
    """The specification's own URL; None for a file."""
    parameters: list[Parameter] = []
    body: Body | None = None
    security: list[list[Scheme]] | None = None
    """Alternatives, each with all its required keys; None if the specification does not mention
    keys."""
    key_header: str | None = None
    """The header for the call's idempotency key, if the operation declares one."""

    @property
    def title(self) -> str:
        """Return its name in messages, such as `GET /pets/{petId}`."""
        return f"{self.method} {self.path}"
