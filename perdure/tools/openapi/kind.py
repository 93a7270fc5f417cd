"""`kind: openapi`: the operations of an HTTP API with an OpenAPI 3 specification, as functions for the model."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote_plus, urlencode
from weakref import WeakKeyDictionary

from pydantic import ValidationError

from ...agents import loaded_from
from ...declared_tools import Connection, OpenApiTool, Tool
from ...errors import LoadError
from ...messages import ToolResult
from ...redaction import REDACTED, know_client, redacted_excerpt
from ...worker_limits import OPEN, WorkerLimits
from ..kind import Asking, KindCall, Offering, ToolKind, ToolOfferError
from .document import SpecificationError
from .http import MAX_READ_BYTES, Http, HttpAnswer, HttpFailure, failure, result_of
from .operation import Operation
from .operations import option_problems
from .request import Content, HttpRequest, Unfit, request_of
from .security import Credentials, Keys, base_url, credentials_for, origin_of, require_trusted
from .sources import as_text, from_text, is_url, offered_at, offered_in_file

MAX_TOKEN_BYTES = 256 * 1024
EARLY_SECONDS = 30.0
"""So long before its end a token is no longer used."""
_USUAL_SECONDS = 300.0
"""For a token that does not say how long it is valid."""
_Key = tuple[str, ...]


class Tokens:
    """The tokens of one worker, by the connection that they were got with."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self._known: dict[_Key, tuple[str, float]] = {}
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    async def token(self, connection: Connection) -> str:
        """A token for a connection of `kind: oauth`. Raises SpecificationError and HttpFailure."""
        key = _key(connection)
        async with self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            token, expires = self._known.get(key, ("", 0.0))
            if not token or time.monotonic() > expires:
                token, seconds = await self._ask(*key)
                self._known[key] = token, time.monotonic() + max(0.0, seconds - EARLY_SECONDS)
        return token

    def forget(self, connection: Connection) -> None:
        """Ask for a new token the next time: a server did not take this one."""
        self._known.pop(_key(connection), None)

    async def _ask(self, url: str, id: str, secret: str, scopes: str) -> tuple[str, float]:
        form = {"grant_type": "client_credentials", **({"scope": scopes} if scopes else {})}
        pair = base64.b64encode(f"{quote_plus(id)}:{quote_plus(secret)}".encode())
        headers = [("Authorization", b"Basic " + pair), ("Accept", b"application/json")]
        media = "application/x-www-form-urlencoded"
        headers.append(("Content-Type", media.encode()))
        request = HttpRequest("POST", url, headers, Content(urlencode(form).encode(), media))
        try:
            answer = await self._http.send(request, limit=MAX_TOKEN_BYTES)
        except HttpFailure as error:  # What the token is for was not sent.
            raise HttpFailure(str(error), kind=error.kind, was_sent=False) from None
        said = _said(answer)
        token, seconds = said.get("access_token"), said.get("expires_in", _USUAL_SECONDS)
        if answer.status != 200 or not isinstance(token, str) or not token:
            why = str(said.get("error_description") or said.get("error") or "no access_token in it")
            for sent in (pair.decode(), secret, quote_plus(secret)):
                why = why.replace(sent, REDACTED)
            why = redacted_excerpt(why)[:300]
            raise HttpFailure(
                f"the token server {origin_of(url)} answered {answer.status}: {why}", kind="token", was_sent=False
            )
        is_number = isinstance(seconds, int | float | str) and str(seconds).replace(".", "", 1).isdigit()
        return token, float(seconds) if is_number else _USUAL_SECONDS


def _key(connection: Connection) -> _Key:
    given = {
        "tokenUrl": connection.token_url,
        "clientId": connection.client_id,
        "clientSecret": connection.client_secret,
    }
    for name, value in given.items():
        if not value:
            raise SpecificationError(f"the tool's connection of kind oauth needs `{name}`")
    scopes = connection.scopes or ""
    try:
        origin_of(connection.token_url or "")
    except ValueError as error:
        raise SpecificationError(f"connection.tokenUrl can't be called: {error}") from None
    return (*(str(value) for value in given.values()), scopes if isinstance(scopes, str) else " ".join(scopes))


def _said(answer: HttpAnswer) -> dict[str, Any]:
    try:
        said = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


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
        folder = loaded_from(asking.agent).base_dir or asking.prompt_root
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
