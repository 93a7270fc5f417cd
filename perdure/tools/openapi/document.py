"""An OpenAPI document and those that it refers to, as values; resolves their references."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urldefrag, urljoin

from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from ...errors import LoadError
from ...json_types import JsonObject, JsonView

MAX_BYTES = 16 * 2**20
"""Limit for all documents of one specification."""
MAX_VALUES = 500_000
"""Limit for one document, and for all documents of one specification: a value takes some hundred
bytes of memory."""
MAX_DOCUMENTS = 64
"""The specification's own document included."""
_MAX_REFERENCES = 32
"""Maximum length of a chain of references."""
_SWAGGER = "Swagger 2.0 is not read: convert it to OpenAPI 3 (for instance by editor.swagger.io)"


class SpecificationError(ValueError):
    """A specification can't be used; the text has the reason and the remedy."""


def read_document(text: str, name: str) -> Any:
    """Return the value of a JSON or YAML text; `name` is its name in messages. Raises
    SpecificationError.
    """
    from ...prompty.asset_file import read_yaml

    try:
        if text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
            return _json_value(text.lstrip("\ufeff"))
        return read_yaml(text.lstrip("\ufeff"), max_values=MAX_VALUES)[0]
    except LoadError as error:
        place = f"{name}:{error.line}" if error.line else name
        raise SpecificationError(f"{place} is not valid YAML: {error.message}") from None
    except (ValueError, RecursionError) as error:
        raise SpecificationError(f"{name} is not valid JSON: {error}") from None


def _json_value(text: str) -> Any:
    if text.count("[") + text.count("{") <= MAX_VALUES:
        value = json.loads(text, parse_constant=_refuse)
        if values_in(value) <= MAX_VALUES:
            return value
    raise ValueError(f"it has more than {MAX_VALUES:,} values")


def values_in(content: Any) -> int:
    """Return the number of values in a document."""
    count, row = 0, [content]
    while row:
        value = row.pop()
        count += 1
        if isinstance(value, Mapping):
            row += value.values()
        elif isinstance(value, list):
            row += value
    return count


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON value")


class Documents:
    """A specification, and the documents that it refers to, by their URIs."""

    def __init__(self, uri: str, content: Any) -> None:
        """`content` is the specification's. Raises SpecificationError for a value that is not an
        OpenAPI document.
        """
        self.uri = uri
        self.root = as_map(content, "the document")
        version = self.root.get("openapi")
        if not isinstance(version, str) or not re.match(r"3\.\d", version):
            found = _SWAGGER if "swagger" in self.root else f"its `openapi` is {version!r:.40}"
            raise SpecificationError(
                f"the document is not an OpenAPI 3 specification: {found}. Expected `openapi: "
                "3.x.y`"
            )
        self.is_30 = version.startswith("3.0")
        self._content: JsonObject = {uri: self.root}
        self._referred_uris = set(_referred_uris(self.root, uri))
        self._values = values_in(self.root)
        self._unreadable: dict[str, str] = {}
        self._registry: Registry[Any] | None = None

    def missing_uris(self) -> list[str]:
        """URIs of referenced documents that have not been added yet; [] without any.

        Raises SpecificationError for too many.
        """
        missing = sorted(self._referred_uris - self._content.keys() - self._unreadable.keys())
        if len(self._content) + len(missing) > MAX_DOCUMENTS:
            raise SpecificationError(
                f"the document refers to more than {MAX_DOCUMENTS} others: bundle them into one"
            )
        return missing

    def add(self, uri: str, content: Any) -> None:
        """Add a referenced document. Raises SpecificationError if all documents together have too
        many values.
        """
        self._values += values_in(content)
        if self._values > MAX_VALUES:
            raise SpecificationError(
                f"the documents have more than {MAX_VALUES:,} values together: split the "
                "specification"
            )
        self._content[uri] = content
        self._referred_uris.update(_referred_uris(content, uri))

    def give_up(self, uri: str, why: str) -> None:
        """Record why a document is unavailable: an error only if an offered operation refers to
        it.
        """
        self._unreadable[uri] = why

    def resolve(self, reference: str, base: str) -> tuple[Any, str]:
        """Return the target of a `$ref` in the document `base`, and its URI. Raises
        SpecificationError.
        """
        uri = urljoin(base, reference)
        document = urldefrag(uri).url
        if document in self._unreadable:
            raise SpecificationError(
                f"`$ref: {reference}` can't be followed: {self._unreadable[document]}"
            )
        if self._registry is None:
            pairs = (
                (name, DRAFT202012.create_resource(content))
                for name, content in self._content.items()
            )
            self._registry = Registry[Any]().with_resources(pairs)
        try:
            return self._registry.resolver().lookup(uri).contents, uri
        except (Unresolvable, ValueError, TypeError, AttributeError):
            raise SpecificationError(f"`$ref: {reference}` leads nowhere") from None

    def follow(self, value: Any, base: str) -> tuple[Any, str]:
        """Return the value with a `$ref` replaced by its target, and the URI of its document.
        Raises SpecificationError.
        """
        for _ in range(_MAX_REFERENCES):
            reference = value.get("$ref") if isinstance(value, Mapping) else None
            if not isinstance(reference, str):
                return value, base
            value, uri = self.resolve(reference, base)
            base = urldefrag(uri).url
        raise SpecificationError(f"`$ref: {reference}` leads in a circle")


def _referred_uris(content: Any, base: str) -> Iterator[str]:
    """Yield the URIs of the other documents that a document refers to."""
    row = [content]
    while row:
        value = row.pop()
        if isinstance(value, Mapping):
            reference = value.get("$ref")
            if isinstance(reference, str) and not reference.startswith("#"):
                yield from _document_uri(reference, base)
            row += value.values()
        elif isinstance(value, list):
            row += value


def _document_uri(reference: str, base: str) -> Iterator[str]:
    try:
        uri = urldefrag(urljoin(base, reference)).url
    except ValueError:
        return
    if uri != base:
        yield uri


def as_map(value: Any, what: str) -> JsonView:
    """Return the value, {} for None. Raises SpecificationError for a value that is not a map."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SpecificationError(f"{what} must be an object, got {value!r:.60}")
    return value


def as_list(value: Any, what: str) -> list[Any]:
    """Return the value, [] for None. Raises SpecificationError for a value that is not a list."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise SpecificationError(f"{what} must be a list, got {value!r:.60}")
    return value


def as_text(value: Any, what: str, default: str = "") -> str:
    """Return the value, `default` for None. Raises SpecificationError for a value that is not a
    string.
    """
    if value is None:
        return default
    if not isinstance(value, str):
        raise SpecificationError(f"{what} must be a string, got {value!r:.60}")
    return value
