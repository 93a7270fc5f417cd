"""Fetches a specification from its URL, and the documents on the same server that it refers to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urldefrag

from ..kind import Offering
from .bodies import Content
from .document import MAX_BYTES, Documents, SpecificationError, read_document
from .http import Http, HttpFailure
from .operations import offered_by
from .request import HttpRequest
from .security import Credentials
from .selection import Selection
from .servers import Origin, origin_of

ACCEPT = b"application/json, application/yaml;q=0.9, */*;q=0.5"


async def offered_at(url: str, options: Mapping[str, Any], http: Http, credentials: Credentials) -> list[Offering]:
    """What the specification at the URL offers; `credentials` are sent with each request.

    Raises SpecificationError and HttpFailure.
    """
    url = urldefrag(url).url
    try:
        origin = origin_of(url)
    except ValueError as error:
        raise SpecificationError(f"its URL can't be asked: {error}") from None
    fetch = _Fetch(http, credentials)
    documents = await asyncio.to_thread(Documents, url, await fetch.value(url))
    while missing := documents.missing():
        for uri in missing:
            await _add(documents, uri, origin, fetch)
    variables = options.get("variables") or {}
    return await asyncio.to_thread(offered_by, documents, Selection.of(options), variables, url)


class _Fetch:
    """Fetches the documents of one specification, which share a limit."""

    def __init__(self, http: Http, credentials: Credentials) -> None:
        self._http = http
        self._headers = [("Accept", ACCEPT), *((name, value.encode()) for name, value in credentials.headers)]
        self._left = MAX_BYTES

    async def value(self, url: str) -> Any:
        """What the document at the URL says. Raises SpecificationError and HttpFailure."""
        answer = await self._http.send(HttpRequest("GET", url, self._headers, Content()), limit=self._left)
        self._left -= len(answer.body)
        if answer.status != 200:
            raise SpecificationError(f"{origin_of(url)} answered {answer.status} {answer.reason} where it should be")
        if not answer.is_whole:
            raise SpecificationError(f"it has more than {MAX_BYTES:,} bytes, together with documents it came with")
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
