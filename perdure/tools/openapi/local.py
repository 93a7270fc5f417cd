"""Reads specifications from files: where a run is started, to be recorded, or under a worker's prompt_root."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ...agent import Agent, OpenApiTool
from ...errors import LoadError
from ...prompty.asset_file import read_text
from ...prompty.references import contained_path
from ..kind import Offering
from .document import MAX_BYTES, Documents, SpecificationError, read_document
from .operations import offered_by
from .recorded import as_text
from .selection import Selection, option_problems


def is_url(specification: str) -> bool:
    """Whether it is the URL of a specification, rather than a path."""
    return specification.lower().startswith(("http://", "https://"))


def with_specifications(agent: Agent) -> Agent:
    """A copy in which tools of `kind: openapi` have what their files offer, so that the run does without the files.

    What is not there stays a path: a worker may have it. Raises LoadError for a file that is wrong, and for one outside
    the folders that the agent was loaded with.
    """
    tools = [_recorded(tool, agent) if isinstance(tool, OpenApiTool) else tool for tool in agent.tools or []]
    if all(new is old for new, old in zip(tools, agent.tools or [], strict=True)):
        return agent
    return agent.model_copy(update={"tools": tools})


def _recorded(tool: OpenApiTool, agent: Agent) -> OpenApiTool:
    path, folder = tool.specification or "", agent._base_dir
    if tool.recorded or not path or folder is None or is_url(path) or any(option_problems(tool.options)):
        return tool
    try:
        roots = [Path(folder).resolve(), *(Path(root).resolve() for root in agent._file_roots)]
        if not contained_path(path, Path(folder), roots).exists():
            return tool
        offered = offered_in_file(path, Path(folder), tool.options or {}, roots)
    except (LoadError, SpecificationError) as error:
        raise LoadError(f"tool {tool.name!r}: {error}", field="specification") from None
    return tool.model_copy(update={"recorded": as_text(offered, agent)})


def offered_in_file(path: str, folder: Path, options: Mapping[str, Any], roots: Sequence[Path] = ()) -> list[Offering]:
    """What the specification at a path that starts at a folder offers; it lies there, or in one of `roots`.

    Raises LoadError and SpecificationError.
    """
    roots = roots or [folder.resolve()]
    file = contained_path(path, folder.resolve(), roots)
    documents = Documents(file.as_uri(), _read(file))
    while missing := documents.missing():
        for uri in missing:
            try:
                documents.add(uri, _read(_file_of(uri, roots)))
            except (LoadError, SpecificationError) as error:
                documents.give_up(uri, str(error))
    try:
        return offered_by(documents, Selection.of(options), options.get("variables") or {}, None)
    except SpecificationError as error:
        raise SpecificationError(f"{path}: {error}") from None


def mistakes_in_file(path: str, folder: Path) -> list[str]:
    """What the specification at a path in a folder has against the schema of OpenAPI documents.

    Raises SpecificationError for a file that can't be read, and ImportError without the extra `openapi`.
    """
    from openapi_spec_validator import OpenAPIV30SpecValidator, OpenAPIV31SpecValidator

    try:
        file = contained_path(path, folder.resolve(), [folder.resolve()])
        documents = Documents(file.as_uri(), _read(file))
    except LoadError as error:
        raise SpecificationError(str(error)) from None
    validators = {"3.0": OpenAPIV30SpecValidator, "3.1": OpenAPIV31SpecValidator}
    validator = validators.get(str(documents.root["openapi"])[:3])
    if validator is None:
        return []
    # By the schema alone: the validator itself would fetch what the document refers to, from anywhere.
    errors = validator(documents.root).schema_validator.iter_errors(documents.root)
    try:
        return [
            f"{'/'.join(map(str, error.absolute_path)) or 'the document'}: {error.message:.200}" for error in errors
        ]
    except RecursionError:
        return ["it is nested too deeply to be checked"]


def _file_of(uri: str, roots: Sequence[Path]) -> Path:
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc:
        raise SpecificationError(f"{uri[:200]!r} is no file: a specification in a file refers to files in its folder")
    return contained_path(unquote(parts.path), None, roots)


def _read(file: Path) -> Any:
    if not file.exists():
        raise SpecificationError(f"there is no file {str(file)!r}")
    if file.is_file() and file.stat().st_size > MAX_BYTES:
        raise SpecificationError(f"{file.name} has more than {MAX_BYTES:,} bytes")
    return read_document(read_text(file), file.name)
