"""The cards by which A2A clients find an agent, for the current and the previous version of the
protocol.
"""

from __future__ import annotations

from typing import Any

from a2a.server.routes import create_agent_card_routes
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.requests import Request
from starlette.responses import Response

from .._version import __version__
from .gateway import OfferedAgent

VERSIONS = ("1.0", "0.3")
"""Versions of the protocol. If they include the older one, a card has its fields in both forms."""


def card_answer(offer: OfferedAgent, base: str, *, is_open: bool) -> Any:
    """Return the handler that serves the card, with the address of the request."""

    async def answer(request: Request) -> Response:
        card = card_of(offer, f"{request.url.scheme}://{request.url.netloc}{base}", is_open=is_open)
        [route] = create_agent_card_routes(card)
        return await route.endpoint(request)  # type: ignore[no-any-return]

    return answer


def card_of(offer: OfferedAgent, url: str, *, is_open: bool) -> AgentCard:
    """Return the card of an agent that is served at `url`."""
    card = AgentCard(
        name=offer.name,
        description=offer.description,
        version=__version__,
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version=version)
            for version in VERSIONS
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=["text/plain", "application/json"],
        default_output_modes=["text/plain"],
        skills=[
            AgentSkill(
                id=offer.name, name=offer.name, description=offer.description, tags=["perdure"]
            )
        ],
    )
    if not is_open:
        card.security_schemes["bearer"].http_auth_security_scheme.scheme = "bearer"
        card.security_requirements.add().schemes["bearer"].SetInParent()
    return card
