"""`kind: openapi`: the operations of an HTTP API with an OpenAPI 3 specification, as functions for the model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ValidationError

from ...agent import Connection, OpenApiTool, Tool
from ...errors import LoadError
from ...messages import ToolResult
from ...redaction import know_client
from ...worker_limits import OPEN, WorkerLimits
from ..kind import Asking, KindCall, Offering, ToolKind, ToolOfferError
from .answers import MAX_READ_BYTES, failure, result_of
from .bodies import Unfit
from .document import SpecificationError
from .http import Http, HttpFailure
from .local import is_url, offered_in_file
from .operation import Operation
from .recorded import as_text, from_text
from .remote import offered_at
from .request import request_of
from .security import Credentials, Keys, credentials_for
from .selection import option_problems
from .servers import base_url, origin_of, require_trusted
from .tokens import Tokens

DISCOVERY_SECONDS = 20.0
"""For the specification and all that it refers to."""
_CONNECTIONS = ("key", "anonymous", "remote", "oauth", "reference")


class OpenApiKind(ToolKind):
    """Tools of `kind: openapi`.

    `connections` are those that files refer to by `connection: {kind: reference, name: …}`.
    """

    asks_others: ClassVar[bool] = True

    def __init__(self, *, connections: Mapping[str, Connection | Mapping[str, Any]] | None = None) -> None:
        given = connections or {}
        self._connections = {name: Connection.model_validate(each) for name, each in given.items()}
        for name, connection in self._connections.items():
            know_client(name, connection)
        self._http = Http()
        self._tokens = Tokens(self._http)

    def problems(self, tool: Tool) -> Sequence[str]:
        """What is wrong with the declaration, a sentence each."""
        if not isinstance(tool, OpenApiTool):
            return ()
        found = list(option_problems(tool.options))
        if not (tool.specification or tool.recorded):
            found.append("specification is missing. Expected the URL of an OpenAPI document, or a path")
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
        """What is wrong with the specification, where that is a file."""
        path = tool.specification if isinstance(tool, OpenApiTool) and not tool.recorded else None
        if not path or is_url(path) or self.problems(tool):
            return ()
        try:
            offered = offered_in_file(path, folder, getattr(tool, "options", None) or {})
            for each in offered:
                _checked_base(Operation.model_validate(each.details), getattr(tool, "connection", None), OPEN)
        except (SpecificationError, LoadError) as error:
            return [str(error)]
        return ()

    async def offer(self, tool: Tool, asking: Asking) -> Sequence[Offering]:
        """A function for each operation. Raises ToolOfferError."""
        assert isinstance(tool, OpenApiTool)
        try:
            if problems := self.problems(tool):
                raise SpecificationError("; ".join(problems))
            connection = self._connection(tool)
            async with asyncio.timeout(DISCOVERY_SECONDS):
                offered: Sequence[Offering] = await self._offered(tool, connection, asking)
            offered = from_text(as_text(offered))
            for each in offered:
                _checked_base(Operation.model_validate(each.details), connection, asking.limits)
        except TimeoutError:
            why = f"the specification was not there after {DISCOVERY_SECONDS:g} s"
            raise ToolOfferError(_cannot(tool, why)) from None
        except (SpecificationError, LoadError, HttpFailure, ValidationError) as error:
            raise ToolOfferError(_cannot(tool, str(error))) from None
        return offered

    async def execute(self, call: KindCall) -> ToolResult:
        """Send the request; whatever comes of it is the result. Never raises but when it is cancelled."""
        assert isinstance(call.tool, OpenApiTool)
        operation = Operation.model_validate(call.details)
        try:
            connection = self._connection(call.tool)
            base = _checked_base(operation, connection, call.limits)
            credentials = credentials_for(operation, await self._keys(connection))
            request = request_of(operation, base, call.arguments, credentials, call.context.idempotency_key)
            answer = await self._http.send(request, limit=MAX_READ_BYTES)
        except Unfit as error:
            text = f"Error: Invalid arguments for tool '{call.name}': {error}"
            return ToolResult.failure(text, kind="invalid_arguments")
        except SpecificationError as error:
            return failure(call.name, str(error), kind="configuration")
        except HttpFailure as error:
            text = _unanswered(operation, error)
            return failure(call.name, text, kind=error.kind, outcome_unknown=error.was_sent)
        if answer.status == 401 and connection is not None and connection.kind == "oauth":
            self._tokens.forget(connection)
        return result_of(answer, operation, call.name, credentials.secrets)

    async def close(self) -> None:
        """Close the connections to servers."""
        await self._http.close()

    async def _offered(self, tool: OpenApiTool, connection: Connection | None, asking: Asking) -> Sequence[Offering]:
        specification, options = tool.specification or "", tool.options or {}
        if tool.recorded:
            return from_text(tool.recorded)
        if is_url(specification):
            return await offered_at(specification, options, self._http, await self._keys_for(specification, connection))
        folder = asking.agent._base_dir or asking.prompt_root
        if folder is None:
            raise SpecificationError(
                f"there was no file {specification!r} beside the agent's file where the run was started, and this "
                "worker has no prompt_root to look in: start the run where the file is, or create_worker(prompt_root=…)"
            )
        return await asyncio.to_thread(offered_in_file, specification, Path(folder), options)

    def _connection(self, tool: OpenApiTool) -> Connection | None:
        connection = tool.connection
        if connection is None or connection.kind != "reference":
            return connection
        found = self._connections.get(connection.name or "")
        if found is None:
            raise SpecificationError(
                f"this worker has no connection {connection.name!r}: give it one, create_worker(tool_kinds="
                f"{{'openapi': OpenApiKind(connections={{{connection.name!r}: …}})}})"
            )
        return found

    async def _keys(self, connection: Connection | None) -> Keys:
        if connection is not None and connection.kind == "oauth":
            return Keys.of(connection, await self._tokens.token(connection))
        return Keys.of(connection)

    async def _keys_for(self, specification: str, connection: Connection | None) -> Credentials:
        """The tool's key for the specification itself, where that is on the server that the connection names."""
        endpoint = connection.endpoint if connection else None
        if not endpoint or origin_of(endpoint) != origin_of(specification):
            return Credentials()
        keys = await self._keys(connection)
        asked = Operation(method="GET", path="", server=specification)
        return credentials_for(asked, keys)


def _checked_base(operation: Operation, connection: Connection | None, limits: WorkerLimits) -> str:
    """The server of an operation. Raises SpecificationError for one that may not be called."""
    endpoint = connection.endpoint if connection else None
    base = base_url(endpoint, operation.server, operation.source)
    has_key = connection is not None and bool(Keys.of(connection) or connection.kind == "oauth")
    if has_key and operation.security != []:
        require_trusted(base, endpoint, operation.source)
    if not endpoint and (refused := limits.refusal_of_url(base, with_secret=has_key)):
        raise SpecificationError(refused)
    return base


def _cannot(tool: OpenApiTool, why: str) -> str:
    named = (tool.specification or "").partition("?")[0].rpartition("@")[2]
    return f"{named}: {why}" if named and not why.startswith(named) else why


def _unanswered(operation: Operation, error: HttpFailure) -> str:
    text = f"{operation.title}: {error}"
    if error.was_sent and not operation.is_idempotent:
        return f"{text}. Whether it took effect is not known"
    return text
