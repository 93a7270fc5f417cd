"""Access tokens by OAuth client credentials (RFC 6749 §4.4), kept until shortly before they expire."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from typing import Any
from urllib.parse import quote_plus, urlencode
from weakref import WeakKeyDictionary

from ...agent import Connection
from ...redaction import REDACTED, redacted_excerpt
from .bodies import Content
from .document import SpecificationError
from .http import Http, HttpAnswer, HttpFailure
from .request import HttpRequest
from .servers import origin_of

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
