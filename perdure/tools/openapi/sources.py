"""Reads specifications from files and URLs, and writes a tool's functions as one text for the run's
record.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urldefrag

from ...agents import Agent
from ...arguments import Place, deeper_than
from ...declared_tools import OpenApiTool
from ...errors import LoadError
from ...json_types import JsonObject, JsonView
from ...prompty.asset_file import read_text
from ...prompty.references import contained_path
from ...prompty.shorthands import map_strings
from ...redaction import looks_secret, redact, redactor
from ..http import Http, HttpRequest, origin_of
from ..kind import Offering, RunStart
from ..options import option_problems
from .document import MAX_BYTES, Document, SpecificationError, read_document
from .operations import Options, offerings_of
from .security import RequestCredentials

ACCEPT = b"application/json, application/yaml;q=0.9, */*;q=0.5"


async def offerings_at(
    url: str, options: JsonView, http: Http, credentials: RequestCredentials
) -> list[Offering]:
    """Return the functions of the specification at the URL; `credentials` are sent with the
    request.

    Raises SpecificationError and HttpFailure.
    """
    url = urldefrag(url).url
    try:
        origin = origin_of(url)
    except ValueError as error:
        raise SpecificationError(f"its URL can't be asked: {error}") from None
    headers = [("Accept", ACCEPT), *((name, text.encode()) for name, text in credentials.headers)]
    answer = await http.send(HttpRequest("GET", url, headers), limit=MAX_BYTES)
    if answer.status != 200:
        raise SpecificationError(
            f"{origin} answered {answer.status} {answer.reason} where it should be"
        )
    if not answer.is_whole:
        raise SpecificationError(f"it has more than {MAX_BYTES:,} bytes")
    try:
        text = answer.body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SpecificationError("it is not UTF-8 text") from None
    return await asyncio.to_thread(_offerings, text, "the document", options, url)


def _offerings(text: str, name: str, options: JsonView, source: str | None) -> list[Offering]:
    return offerings_of(Document(read_document(text, name)), options, source)


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
    if not path or folder is None or is_url(path) or any(option_problems(Options, tool.options)):
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
    file = contained_path(path, folder.resolve(), roots or [folder.resolve()])
    try:
        return _offerings(_text(file), file.name, options, None)
    except SpecificationError as error:
        raise SpecificationError(f"{path}: {error}") from None


def _text(file: Path) -> str:
    if not file.exists():
        raise SpecificationError(f"there is no file {str(file)!r}")
    if file.stat().st_size > MAX_BYTES:
        raise SpecificationError(f"it has more than {MAX_BYTES:,} bytes")
    return read_text(file)


def mistakes_in_file(path: str, folder: Path) -> list[str]:
    """Return the faults of the specification at a path in a folder, by the schema of OpenAPI
    documents.

    Raises SpecificationError for an unreadable file, and ImportError without the extra `openapi`.
    """
    from jsonschema.validators import validator_for
    from openapi_spec_validator.schemas import schema_v30, schema_v31

    try:
        file = contained_path(path, folder.resolve(), [folder.resolve()])
        document = Document(read_document(_text(file), file.name))
    except LoadError as error:
        raise SpecificationError(str(error)) from None
    schema = {"3.0": schema_v30, "3.1": schema_v31}.get(document.root.openapi[:3])
    if schema is None:
        return []
    # With the schema alone: the library's validator would fetch referenced documents from anywhere.
    # And always with this one: if another is installed, the library would use that, whose messages
    # contain the whole schema.
    errors = validator_for(schema)(dict(schema)).iter_errors(document.content)
    try:
        return [
            f"{'/'.join(map(str, error.absolute_path)) or 'the document'}: {error.message:.200}"
            for error in errors
        ]
    except RecursionError:
        return ["it is nested too deeply to be checked"]
