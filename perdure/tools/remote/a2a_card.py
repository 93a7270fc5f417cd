"""Reads the card of a remote agent, in all known forms: the address and the authentication of
requests.
"""

from __future__ import annotations

import re
from copy import deepcopy

from a2a.client.card_resolver import parse_agent_card
from a2a.types import AgentCard, AgentInterface, SecurityScheme
from a2a.utils.constants import TransportProtocol
from google.protobuf.json_format import MessageToDict, ParseDict

from ...json_types import JsonObject, JsonView
from ..kind import ToolOfferError
from .a2a_http import NONSENSE, fault_of, refusal_of_url
from .settings import RemoteSettings

HTTP_JSON = TransportProtocol.HTTP_JSON.value
BINDINGS = (TransportProtocol.JSONRPC.value, HTTP_JSON)
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_VERSION = re.compile(r"(?:(?:0\.3|[1-9]\d{0,3}\.\d{1,4})(?:\.\d{1,4})?)?")
"""The versions of the official client, and none: some cards leave it out."""
_NOT_FOR_KEYS = frozenset(
    {"host", "content-length", "content-type", "transfer-encoding", "connection"}
)


def parsed_card(document: JsonView) -> AgentCard:
    """Return a card of this version of A2A, or of an earlier one. Raises ToolOfferError for an
    invalid card.
    """
    try:
        return parse_agent_card(deepcopy(dict(document)))
    except NONSENSE as error:
        raise ToolOfferError(f"its card makes no sense: {fault_of(error).text}") from error


def callable_part(card: AgentCard, settings: RemoteSettings) -> JsonObject:
    """Return the parts of the card that a call needs, to be recorded: one interface, and the
    authentication.

    Raises ToolOfferError for a card without an address that perdure may call.
    """
    interface = _interface(card, settings)
    part = AgentCard(name=card.name[:200], supported_interfaces=[interface])
    return {"card": MessageToDict(part), "auth": way_in(card)}


def card_of(details: JsonObject) -> AgentCard:
    """Return the card recorded by `callable_part`."""
    return ParseDict(details["card"], AgentCard(), ignore_unknown_fields=True)


def way_in(card: AgentCard) -> dict[str, str]:
    """Return how the card wants a key to be sent: `header`, with that header's name, or `scheme`;
    {} if it does not say.

    Raises ToolOfferError for a key that must be sent outside headers.
    """
    required = [name for requirement in card.security_requirements for name in requirement.schemes]
    for name in required or list(card.security_schemes):
        if name in card.security_schemes and (found := _way(card.security_schemes[name])):
            return found
    return {}


def _way(scheme: SecurityScheme) -> dict[str, str]:
    if scheme.HasField("http_auth_security_scheme"):
        return {"scheme": scheme.http_auth_security_scheme.scheme.lower()[:20]}
    if not scheme.HasField("api_key_security_scheme"):
        return {}
    place, name = scheme.api_key_security_scheme.location, scheme.api_key_security_scheme.name
    if place != "header" or not _HEADER.fullmatch(name) or name.lower() in _NOT_FOR_KEYS:
        raise ToolOfferError(
            f"its card wants the key in {place!r:.40} as {name!r:.80}: only headers are possible"
        )
    return {"header": name}


def _interface(card: AgentCard, settings: RemoteSettings) -> AgentInterface:
    """Return the first interface that perdure speaks and may call."""
    spoken = [
        each
        for each in card.supported_interfaces
        if each.protocol_binding in BINDINGS and _VERSION.fullmatch(each.protocol_version)
    ]
    if not spoken:
        listed = {
            f"{each.protocol_binding} {each.protocol_version}".strip()[:40]
            for each in card.supported_interfaces
        }
        found = ", ".join(sorted(listed)) or "none"
        raise ToolOfferError(
            f"its card has no interface by {' or '.join(BINDINGS)} of version 1.0 or 0.3, but: "
            f"{found}"
        )
    for interface in spoken:
        if settings.allows(interface.url):
            return interface
    raise ToolOfferError(
        f"its card points elsewhere: {refusal_of_url(spoken[0].url, settings.endpoint)}"
    )
