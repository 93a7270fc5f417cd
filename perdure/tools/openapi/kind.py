"""`kind: openapi`: the operations of an HTTP API with an OpenAPI 3 specification, as functions for
the model.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ValidationError

from ...agents import loaded_from
from ...declared_tools import Connection, OpenApiTool, Tool
from ...errors import LoadError
from ...messages import AudioPart, FilePart, ImagePart, Part, ToolResult
from ...prompty.worker_limits import OPEN, WorkerLimits
from ...redaction import REDACTED
from ...text import excerpt
from ..http import Http, HttpAnswer, HttpFailure, charset_in, origin_of
from ..kind import Asking, KindCall, Offering, RunStart, ToolKind, ToolOfferError
from ..options import option_problems
from .document import SpecificationError
from .operation import Operation
from .operations import Options
from .request import Unfit, request_of
from .security import RequestCredentials, base_url, credentials_for, key_of, require_trusted
from .sources import as_text, from_text, is_url, offerings_at, offerings_in_file, recorded_file

DISCOVERY_SECONDS = 20.0
"""For the specification."""
MAX_READ_BYTES = 4 * 2**20
"""Limit for one answer, decompressed. The limits of tool results, which are lower, bound what the
model sees."""
MAX_EXCERPT = 4000
"""Characters of an error's body."""
_SHORTEST_SECRET = 4
_TEXT = ("json", "xml", "yaml", "javascript", "x-www-form-urlencoded", "graphql", "csv")
_CONNECTIONS = ("key", "anonymous", "remote")


class OpenApiKind(ToolKind):
    """Tools of `kind: openapi`."""

    asks_others: ClassVar[bool] = True

    def __init__(self) -> None:
        self._http = Http()

    def problems(self, tool: Tool) -> Sequence[str]:
        """Return the faults of the declaration, a sentence each."""
        assert isinstance(tool, OpenApiTool)
        found = list(option_problems(Options, tool.options))
        if not (tool.specification or tool.recorded):
            found.append(
                "specification is missing. Expected the URL of an OpenAPI document, or a path"
            )
        try:
            from_text(tool.recorded or '{"operations":[]}')
        except SpecificationError as error:
            found.append(str(error))
        kind = tool.connection.kind if tool.connection else "anonymous"
        if kind not in _CONNECTIONS:
            found.append(
                f"connection.kind is {kind!r}. Expected one of {', '.join(_CONNECTIONS)}; a token "
                "that ends may be a credential: apiKey: ${credential:ID}"
            )
        return found

    def file_problems(self, tool: Tool, folder: Path) -> Sequence[str]:
        """Return the faults of the specification, if it is a file."""
        assert isinstance(tool, OpenApiTool)
        path = tool.specification
        if not path or tool.recorded or is_url(path) or self.problems(tool):
            return ()
        try:
            _check_servers(offerings_in_file(path, folder, tool.options or {}), tool.connection)
        except (SpecificationError, LoadError) as error:
            return [str(error)]
        return ()

    def record(self, tool: Tool, start: RunStart) -> str | None:
        """Return the functions of a specification in a file. Raises LoadError."""
        return recorded_file(tool, start) if isinstance(tool, OpenApiTool) else None

    async def offer(self, tool: Tool, asking: Asking) -> Sequence[Offering]:
        """Return a function for each operation. Raises ToolOfferError."""
        assert isinstance(tool, OpenApiTool)
        try:
            if problems := self.problems(tool):
                raise SpecificationError("; ".join(problems))
            connection = tool.connection
            async with asyncio.timeout(DISCOVERY_SECONDS):
                offered = from_text(as_text(await self._offerings(tool, connection, asking)))
            _check_servers(offered, connection, asking.limits)
        except TimeoutError:
            why = f"the specification was not there after {DISCOVERY_SECONDS:g} s"
            raise ToolOfferError(_offer_error(tool, why)) from None
        except (SpecificationError, LoadError, HttpFailure, ValidationError) as error:
            raise ToolOfferError(_offer_error(tool, str(error))) from None
        return offered

    async def execute(self, call: KindCall) -> ToolResult:
        """Send the request; the result contains any outcome. Raises only when it is cancelled."""
        assert isinstance(call.tool, OpenApiTool)
        operation = Operation.model_validate(call.details)
        try:
            connection = call.tool.connection
            base = _checked_base(operation, connection, call.limits)
            credentials = credentials_for(operation, key_of(connection))
            request = request_of(
                operation, base, call.arguments, credentials, call.context.idempotency_key
            )
            answer = await self._http.send(request, limit=MAX_READ_BYTES)
        except Unfit as error:
            text = f"Error: Invalid arguments for tool '{call.name}': {error}"
            return ToolResult.failure(text, kind="invalid_arguments")
        except SpecificationError as error:
            return _failure(call.name, str(error), kind="configuration")
        except HttpFailure as error:
            text = f"{operation.title}: {error}"
            return _failure(call.name, text, kind=error.kind, outcome_unknown=error.outcome_unknown)
        return _without_secrets(_result_of(answer, operation, call.name), credentials)

    async def close(self) -> None:
        """Close the connections to servers."""
        await self._http.close()

    async def _offerings(
        self, tool: OpenApiTool, connection: Connection | None, asking: Asking
    ) -> Sequence[Offering]:
        specification, options = tool.specification or "", tool.options or {}
        if tool.recorded:
            return from_text(tool.recorded)
        if is_url(specification):
            credentials = self._credentials_for(specification, connection)
            return await offerings_at(specification, options, self._http, credentials)
        folder = loaded_from(asking.agent).base_dir or asking.prompt_root
        if folder is None:
            raise SpecificationError(
                f"there was no file {specification!r} in the folder of the agent's file where the "
                "run was started, and this worker has no prompt_root to look in: start the run "
                "where the file is, or create_worker(prompt_root=…)"
            )
        return await asyncio.to_thread(offerings_in_file, specification, Path(folder), options)

    def _credentials_for(
        self, specification: str, connection: Connection | None
    ) -> RequestCredentials:
        """Return the tool's key for the specification itself, if that is on the server named by the
        connection.
        """
        endpoint = connection.endpoint if connection else None
        if not endpoint or origin_of(endpoint) != origin_of(specification):
            return RequestCredentials()
        asked = Operation(method="GET", path="", server=specification)
        return credentials_for(asked, key_of(connection))


def _check_servers(
    offered: Sequence[Offering], connection: Connection | None, limits: WorkerLimits = OPEN
) -> None:
    for each in offered:
        _checked_base(Operation.model_validate(each.details), connection, limits)


def _checked_base(operation: Operation, connection: Connection | None, limits: WorkerLimits) -> str:
    """Return the server of an operation. Raises SpecificationError for one that may not be
    called.
    """
    endpoint = connection.endpoint if connection else None
    base = base_url(endpoint, operation.server, operation.source)
    has_key = bool(key_of(connection))
    if has_key and operation.security != []:
        require_trusted(base, endpoint, operation.source)
    if not endpoint and (refused := limits.refusal_of_url(base, with_secret=has_key)):
        raise SpecificationError(refused)
    return base


def _offer_error(tool: OpenApiTool, why: str) -> str:
    named = (tool.specification or "").partition("?")[0].rpartition("@")[2]
    return f"{named}: {why}" if named and not why.startswith(named) else why


def _result_of(answer: HttpAnswer, operation: Operation, name: str) -> ToolResult:
    """Return the result of a call: the body of a success, or the text of an error."""
    said = f"{answer.status} {answer.reason}".strip()
    text = _text(answer)
    if not answer.is_success:
        shown = f"({len(answer.body):,} bytes of {answer.media})" if text is None else text.strip()
        shown = excerpt(shown, MAX_EXCERPT) and f": {excerpt(shown, MAX_EXCERPT)}"
        return _failure(
            name,
            f"{operation.title} answered {said}{shown}",
            kind=f"http_{answer.status}",
            outcome_unknown=answer.outcome_unknown,
        )
    if not answer.body:
        location = answer.headers.get("location")
        return ToolResult.of_text(f"{said}, location: {location[:1000]}" if location else said)
    if text is None:
        return _media_result(answer, name)
    if "json" in answer.media and answer.is_whole and not _is_json(text):
        text = f"{operation.title} gave an answer that is not JSON: {text[:MAX_EXCERPT]}"
        return _failure(name, text, kind="nonsense", outcome_unknown=True)
    if not answer.is_whole:
        text += f"\n[… the answer is longer than {MAX_READ_BYTES:,} bytes: no more was read …]"
    return ToolResult.of_text(text)


def _failure(name: str, text: str, *, kind: str, outcome_unknown: bool = False) -> ToolResult:
    """Return a result that describes the failure to the model, in the form of all tools."""
    text = f"Error: Tool '{name}' failed: {text}"
    return ToolResult.failure(text, kind=kind, outcome_unknown=outcome_unknown)


def _media_result(answer: HttpAnswer, name: str) -> ToolResult:
    if not answer.is_whole:
        text = (
            f"the answer is {answer.media} of more than {MAX_READ_BYTES:,} bytes, which is too "
            "large for a result"
        )
        return _failure(name, text, kind="too_large", outcome_unknown=True)
    kinds: dict[str, type[Part]] = {"image": ImagePart, "audio": AudioPart}
    kind: Any = kinds.get(answer.media.partition("/")[0], FilePart)
    media = answer.media[:200] or "application/octet-stream"
    source = base64.b64encode(answer.body).decode()
    return ToolResult(parts=[kind.model_validate({"source": source, "mediaType": media})])


def _text(answer: HttpAnswer) -> str | None:
    """Return the body as text; None for a body of another media type."""
    media = answer.media
    is_text = media.startswith("text/") or any(kind in media for kind in _TEXT)
    if not (is_text if media else b"\0" not in answer.body[:1024]):
        return None
    return answer.body.decode(
        charset_in(str(answer.headers.get("content-type", ""))), errors="replace"
    )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _without_secrets(result: ToolResult, sent: RequestCredentials) -> ToolResult:
    """Return the result without the keys that were sent."""
    text = clean = result.text
    for each in sorted(sent.secrets, key=len, reverse=True):
        if len(each) >= _SHORTEST_SECRET:
            clean = clean.replace(each, REDACTED)
    if clean == text:
        return result
    if result.status == "success":
        return ToolResult.of_text(clean)
    kind, is_unknown = result.error_kind or "", result.outcome_unknown
    return ToolResult.failure(clean, kind=kind, outcome_unknown=is_unknown)
