"""Makes the client for one call of a remote agent, from what was recorded of its card."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from a2a.client import ClientConfig, ClientFactory

from ..kind import KindCall
from .card import BINDINGS, card_of
from .follow import RemoteCall
from .http import http_client
from .settings import settings_of


@asynccontextmanager
async def remote_call(call: KindCall) -> AsyncIterator[RemoteCall]:
    """The call, with a connection of its own for as long as the block runs.

    The official client would read at most 5 s with an HTTP client of its own. Raises ValueError for a card that it
    can't use.
    """
    settings = settings_of(call.tool)
    card = card_of(call.details)
    async with http_client(settings, settings.credentials(call.details.get("auth") or {})) as http:
        config = ClientConfig(httpx_client=http, polling=True, supported_protocol_bindings=list(BINDINGS))
        yield RemoteCall(ClientFactory(config).create(card), settings, call, streams=card.capabilities.streaming)
