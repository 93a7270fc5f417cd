"""Reads specifications from files and URLs, and writes a tool's functions as one text for the run's
record.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

from ...agents import Agent
from ...arguments import Place, deeper_than
from ...declared_tools import OpenApiTool
from ...errors import LoadError
from ...json_types import JsonObject, JsonView
from ...prompty.asset_file import read_text
from ...prompty.references import contained_path
from ...prompty.shorthands import map_strings
from ...redaction import looks_secret, redact, redactor
from ...worker_limits import Origin
from ..http import Http, HttpFailure, HttpRequest, origin_of
from ..kind import Offering, RunStart
from .document import MAX_BYTES, Documents, SpecificationError, read_document
from .operations import Selection, offerings_of, option_problems
from .security import RequestCredentials

ACCEPT = b"application/json, application/yaml;q=0.9, */*;q=0.5"


async def offerings_at(
    url: str, options: JsonView, http: Http, credentials: RequestCredentials
) -> list[Offering]:
    """Return the functions of the specification at the URL; `credentials` are sent with each
    request.

    Raises SpecificationError and HttpFailure.
    """
    url = urldefrag(url).url
    try:
        origin = origin_of(url)
    except ValueError as error:
        raise SpecificationError(f"its URL can't be asked: {error}") from None
    fetch = _Fetch(http, credentials)
    documents = await asyncio.to_thread(Documents, url, await fetch.value(url))
    while missing := documents.missing_uris():
        for uri in missing:
            await _add(documents, uri, origin, fetch)
    variables = options.get("variables") or {}
    return await asyncio.to_thread(offerings_of, documents, Selection.of(options), variables, url)


class _Fetch:
    """Fetches the documents of one specification, which share a limit."""

    def __init__(self, http: Http, credentials: RequestCredentials) -> None:
        self._http = http
        self._headers = [
            ("Accept", ACCEPT),
            *((name, value.encode()) for name, value in credentials.headers),
        ]
        self._left = MAX_BYTES

    async def value(self, url: str) -> Any:
        """Return the value of the document at the URL. Raises SpecificationError and
        HttpFailure.
        """
        answer = await self._http.send(HttpRequest("GET", url, self._headers), limit=self._left)
        self._left -= len(answer.body)
        if answer.status != 200:
            raise SpecificationError(
                f"{origin_of(url)} answered {answer.status} {answer.reason} where it should be"
            )
        if not answer.is_whole:
            raise SpecificationError(
                f"it has more than {MAX_BYTES:,} bytes, together with documents it came with"
            )
        try:
            text = answer.body.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise SpecificationError("it is not UTF-8 text") from None
        return await asyncio.to_thread(read_document, text, "the document")


async def _add(documents: Documents, uri: str, origin: Origin, fetch: _Fetch) -> None:
    try:
        if origin_of(uri) != origin:
            raise SpecificationError(f"{uri[:200]!r} is not on {origin}")
        await asyncio.to_thread(documents.add, uri, await fetch.value(uri))
    except (SpecificationError, HttpFailure, ValueError) as error:
        documents.give_up(uri, str(error))


_MAX_LEVELS = 100
"""Deeper than anything that `as_text` writes, whose schemas are bounded."""


def as_text(offered: Sequence[Offering], agent: Agent | None = None) -> str:
    """Return the functions as JSON, without text that looks like a secret, such as an example
    key.
    """
    known = redactor(agent)

    def clean(place: Place, text: str) -> str:
        text = known.text(text)
        return redact(text, agent) if "://" in text or looks_secret(text) else text

    operations = map_strings([asdict(each) for each in offered], clean)
    return json.dumps({"operations": operations}, ensure_ascii=False, separators=(",", ":"))


def from_text(text: str) -> list[Offering]:
    """Return the functions in a text by `as_text`. Raises SpecificationError for any other text."""
    try:
        operations: list[JsonObject] = json.loads(text)["operations"]
        if not deeper_than(operations, _MAX_LEVELS):
            return [Offering(**each) for each in operations]
    except (ValueError, LookupError, TypeError, RecursionError):
        pass
    raise SpecificationError("its field `recorded` was not written by perdure: leave it out")


def is_url(specification: str) -> bool:
    """Return whether it is the URL of a specification, not a path."""
    return specification.lower().startswith(("http://", "https://"))


def recorded_file(tool: OpenApiTool, start: RunStart) -> str | None:
    """Return the functions of a tool's specification, if that is a file; None for one that only a
    worker may have.

    Raises LoadError for an invalid file, and for one outside the folders of the loaded agent.
    """
    path, folder = tool.specification or "", start.folder
    if not path or folder is None or is_url(path) or any(option_problems(tool.options)):
        return None
    try:
        if not contained_path(path, folder, start.roots).exists():
            return None
        offered = offerings_in_file(path, folder, tool.options or {}, start.roots)
    except (LoadError, SpecificationError) as error:
        raise LoadError(f"tool {tool.name!r}: {error}", field="specification") from None
    return as_text(offered, start.agent)


def offerings_in_file(
    path: str, folder: Path, options: JsonView, roots: Sequence[Path] = ()
) -> list[Offering]:
    """Return the functions of the specification at a path relative to a folder; it is in that
    folder, or in one of `roots`.

    Raises LoadError and SpecificationError.
    """
    roots = roots or [folder.resolve()]
    file = contained_path(path, folder.resolve(), roots)
    read = _Files()
    documents = Documents(file.as_uri(), read.value(file))
    while missing := documents.missing_uris():
        for uri in missing:
            try:
                documents.add(uri, read.value(_file_of(uri, roots)))
            except (LoadError, SpecificationError) as error:
                documents.give_up(uri, str(error))
    try:
        return offerings_of(documents, Selection.of(options), options.get("variables") or {}, None)
    except SpecificationError as error:
        raise SpecificationError(f"{path}: {error}") from None


def mistakes_in_file(path: str, folder: Path) -> list[str]:
    """Return the faults of the specification at a path in a folder, by the schema of OpenAPI
    documents.

    Raises SpecificationError for an unreadable file, and ImportError without the extra `openapi`.
    """
    from jsonschema.validators import validator_for
    from openapi_spec_validator.schemas import schema_v30, schema_v31

    try:
        file = contained_path(path, folder.resolve(), [folder.resolve()])
        documents = Documents(file.as_uri(), _Files().value(file))
    except LoadError as error:
        raise SpecificationError(str(error)) from None
    schema = {"3.0": schema_v30, "3.1": schema_v31}.get(str(documents.root["openapi"])[:3])
    if schema is None:
        return []
    # With the schema alone: the library's validator would fetch referenced documents from anywhere.
    # And always with this one: if another is installed, the library would use that, whose messages
    # contain the whole schema.
    errors = validator_for(schema)(dict(schema)).iter_errors(documents.root)
    try:
        return [
            f"{'/'.join(map(str, error.absolute_path)) or 'the document'}: {error.message:.200}"
            for error in errors
        ]
    except RecursionError:
        return ["it is nested too deeply to be checked"]


def _file_of(uri: str, roots: Sequence[Path]) -> Path:
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc:
        raise SpecificationError(
            f"{uri[:200]!r} is not a file: a specification in a file refers to files in its folder"
        )
    return contained_path(unquote(parts.path), None, roots)


class _Files:
    """Reads the files of one specification, which share a limit."""

    def __init__(self) -> None:
        self._left = MAX_BYTES

    def value(self, file: Path) -> Any:
        """Return the document in the file. Raises SpecificationError and LoadError."""
        if not file.exists():
            raise SpecificationError(f"there is no file {str(file)!r}")
        size = file.stat().st_size if file.is_file() else 0
        if size > self._left:
            raise SpecificationError(
                f"{file.name} has more than {MAX_BYTES:,} bytes, together with those before it"
            )
        self._left -= size
        return read_document(read_text(file), file.name)
