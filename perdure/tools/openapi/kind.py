"""`kind: openapi`: the operations of an HTTP API with an OpenAPI 3 specification, as functions for
the model.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ValidationError

from ...agents import loaded_from
from ...declared_tools import Connection, OpenApiTool, Tool
from ...errors import LoadError
from ...json_types import JsonObject, JsonView
from ...messages import AudioPart, FilePart, ImagePart, Part, ToolResult
from ...redaction import REDACTED, know_client
from ...text import charset_in
from ...worker_limits import OPEN, WorkerLimits
from ..http import Http, HttpAnswer, HttpFailure, origin_of
from ..kind import Asking, KindCall, Offering, RunStart, ToolKind, ToolOfferError
from .document import SpecificationError
from .operation import Operation
from .operations import option_problems
from .request import Unfit, request_of
from .security import Keys, RequestCredentials, Tokens, base_url, credentials_for, require_trusted
from .sources import as_text, from_text, is_url, offerings_at, offerings_in_file, recorded_file

DISCOVERY_SECONDS = 20.0
"""For the specification and all documents it refers to."""
MAX_READ_BYTES = 4 * 2**20
"""Limit for one answer, decompressed. The limits of tool results, which are lower, bound what the
model sees."""
MAX_EXCERPT = 4000
"""Characters of an error's body."""
_SHORTEST_SECRET = 4
_TEXT = ("json", "xml", "yaml", "javascript", "x-www-form-urlencoded", "graphql", "csv")
_CONNECTIONS = ("key", "anonymous", "remote", "oauth", "reference")


class OpenApiKind(ToolKind):
    """Tools of `kind: openapi`.

    Files refer to `connections` by `connection: {kind: reference, name: …}`.
    """

    asks_others: ClassVar[bool] = True

    def __init__(self, *, connections: Mapping[str, Connection | JsonView] | None = None) -> None:
        given = connections or {}
        self._connections = {name: Connection.model_validate(each) for name, each in given.items()}
        for name, connection in self._connections.items():
            know_client(name, connection)
        self._http = Http()
        self._tokens = Tokens(self._http)

    def problems(self, tool: Tool) -> Sequence[str]:
        """Return the faults of the declaration, a sentence each."""
        if not isinstance(tool, OpenApiTool):
            return ()
        found = list(option_problems(tool.options))
        if not (tool.specification or tool.recorded):
            found.append(
                "specification is missing. Expected the URL of an OpenAPI document, or a path"
            )
        if tool.recorded:
            try:
                from_text(tool.recorded)
            except SpecificationError as error:
                found.append(str(error))
        kind = tool.connection.kind if tool.connection else "anonymous"
        if kind not in _CONNECTIONS:
            found.append(f"connection.kind is {kind!r}. Expected one of {', '.join(_CONNECTIONS)}")
        return found

    def file_problems(self, tool: Tool, folder: Path) -> Sequence[str]:
        """Return the faults of the specification, if it is a file."""
        path = tool.specification if isinstance(tool, OpenApiTool) and not tool.recorded else None
        if not path or is_url(path) or self.problems(tool):
            return ()
        try:
            offered = offerings_in_file(path, folder, getattr(tool, "options", None) or {})
            for each in offered:
                _checked_base(
                    Operation.model_validate(each.details), getattr(tool, "connection", None), OPEN
                )
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
            connection = self._connection(tool)
            async with asyncio.timeout(DISCOVERY_SECONDS):
                offered: Sequence[Offering] = await self._offerings(tool, connection, asking)
            offered = from_text(as_text(offered))
            for each in offered:
                _checked_base(Operation.model_validate(each.details), connection, asking.limits)
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
            connection = self._connection(call.tool)
            base = _checked_base(operation, connection, call.limits)
            credentials = credentials_for(operation, await self._keys(connection))
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
        if answer.status == 401 and connection is not None and connection.kind == "oauth":
            self._tokens.forget(connection)
        return _result_of(answer, operation, call.name, credentials.secrets)

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
            return await offerings_at(
                specification, options, self._http, await self._keys_for(specification, connection)
            )
        folder = loaded_from(asking.agent).base_dir or asking.prompt_root
        if folder is None:
            raise SpecificationError(
                f"there was no file {specification!r} beside the agent's file where the run was "
                "started, and this "
                "worker has no prompt_root to look in: start the run where the file is, or "
                "create_worker(prompt_root=…)"
            )
        return await asyncio.to_thread(offerings_in_file, specification, Path(folder), options)

    def _connection(self, tool: OpenApiTool) -> Connection | None:
        connection = tool.connection
        if connection is None or connection.kind != "reference":
            return connection
        found = self._connections.get(connection.name or "")
        if found is None:
            raise SpecificationError(
                f"this worker has no connection {connection.name!r}: give it one, "
                "create_worker(tool_kinds="
                f"{{'openapi': OpenApiKind(connections={{{connection.name!r}: …}})}})"
            )
        return found

    async def _keys(self, connection: Connection | None) -> Keys:
        if connection is not None and connection.kind == "oauth":
            return Keys.of(connection, await self._tokens.token(connection))
        return Keys.of(connection)

    async def _keys_for(
        self, specification: str, connection: Connection | None
    ) -> RequestCredentials:
        """Return the tool's key for the specification itself, if that is on the server named by the
        connection.
        """
        endpoint = connection.endpoint if connection else None
        if not endpoint or origin_of(endpoint) != origin_of(specification):
            return RequestCredentials()
        keys = await self._keys(connection)
        asked = Operation(method="GET", path="", server=specification)
        return credentials_for(asked, keys)


def _checked_base(operation: Operation, connection: Connection | None, limits: WorkerLimits) -> str:
    """Return the server of an operation. Raises SpecificationError for one that may not be
    called.
    """
    endpoint = connection.endpoint if connection else None
    base = base_url(endpoint, operation.server, operation.source)
    has_key = connection is not None and bool(Keys.of(connection) or connection.kind == "oauth")
    if has_key and operation.security != []:
        require_trusted(base, endpoint, operation.source)
    if not endpoint and (refused := limits.refusal_of_url(base, with_secret=has_key)):
        raise SpecificationError(refused)
    return base


def _offer_error(tool: OpenApiTool, why: str) -> str:
    named = (tool.specification or "").partition("?")[0].rpartition("@")[2]
    return f"{named}: {why}" if named and not why.startswith(named) else why


def _result_of(
    answer: HttpAnswer, operation: Operation, name: str, secrets: Iterable[str]
) -> ToolResult:
    """Return the result of a call: the body of a success, or the text of an error. Sent keys are
    removed.
    """
    clean = _secret_remover(secrets)
    if not answer.is_success:
        text = clean(_refusal(answer, operation))
        return _failure(
            name, text, kind=f"http_{answer.status}", outcome_unknown=answer.outcome_unknown
        )
    if not answer.body:
        return ToolResult.of_text(clean(_text_without_body(answer)))
    if not _is_text(answer):
        return _media_result(answer, name)
    text = _text(answer)
    if "json" in answer.media and answer.is_whole and not _is_json(text):
        shown = text[:MAX_EXCERPT]
        text = clean(f"{operation.title} gave an answer that is not JSON: {shown}")
        return _failure(name, text, kind="nonsense", outcome_unknown=True)
    if not answer.is_whole:
        text += f"\n[… the answer is longer than {MAX_READ_BYTES:,} bytes: no more was read …]"
    return ToolResult.of_text(clean(text))


def _failure(name: str, text: str, *, kind: str, outcome_unknown: bool = False) -> ToolResult:
    """Return a result that describes the failure to the model, in the form of all tools."""
    text = f"Error: Tool '{name}' failed: {text}"
    return ToolResult.failure(text, kind=kind, outcome_unknown=outcome_unknown)


def _refusal(answer: HttpAnswer, operation: Operation) -> str:
    said = f"{operation.title} answered {answer.status} {answer.reason}".strip()
    body = (
        _text(answer).strip()
        if _is_text(answer)
        else f"({len(answer.body):,} bytes of {answer.media})"
    )
    if len(body) > MAX_EXCERPT:
        body = body[:MAX_EXCERPT] + " …"
    return f"{said}: {body}" if body else said


def _text_without_body(answer: HttpAnswer) -> str:
    """Return the text for an answer without a body."""
    location = answer.headers.get("location")
    said = f"{answer.status} {answer.reason}".strip()
    return f"{said}, location: {location[:1000]}" if location else said


def _media_result(answer: HttpAnswer, name: str) -> ToolResult:
    if not answer.is_whole:
        text = (
            f"the answer is {answer.media} of more than {MAX_READ_BYTES:,} bytes, which is too "
            "large for a result"
        )
        return _failure(name, text, kind="too_large", outcome_unknown=True)
    fields: JsonObject = {
        "source": base64.b64encode(answer.body).decode(),
        "mediaType": answer.media[:200] or "application/octet-stream",
    }
    kinds: dict[str, type[Part]] = {"image": ImagePart, "audio": AudioPart}
    kind: Any = kinds.get(answer.media.partition("/")[0], FilePart)
    return ToolResult(parts=[kind.model_validate(fields)])


def _is_text(answer: HttpAnswer) -> bool:
    if not answer.media:
        return b"\0" not in answer.body[:1024]
    return answer.media.startswith("text/") or any(kind in answer.media for kind in _TEXT)


def _text(answer: HttpAnswer) -> str:
    return answer.body.decode(
        charset_in(str(answer.headers.get("content-type", ""))), errors="replace"
    )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _secret_remover(secrets: Iterable[str]) -> Callable[[str], str]:
    """Return a function that removes the keys from a text."""
    known = sorted(
        {each for each in secrets if len(each) >= _SHORTEST_SECRET}, key=len, reverse=True
    )

    def clean(text: str) -> str:
        for each in known:
            text = text.replace(each, REDACTED)
        return text

    return clean
