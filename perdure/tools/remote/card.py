"""Reads the card of a remote agent, in its current or an older form, and derives the agent's
protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ...json_types import JsonView
from ...text import count_of, cut_middle, one_line
from ..http import Http, HttpAnswer, HttpFailure, HttpRequest
from ..kind import ToolUnavailable
from .settings import RemoteSettings

MAX_CARD_BYTES = 256 * 1024
MAX_DESCRIPTION_BYTES = 8 * 1024
_TRANSPORTS = ("supportedInterfaces", "preferredTransport", "additionalInterfaces")
_ABSENT = (404, 405, 410)
NOT_LET_IN = (
    ": it does not let this worker in; check 'connection.apiKey' and the variable that it refers to"
)

Form = Literal["a2a", "kaos", "kaos-tasks"]
"""`kaos` has a list of capabilities; `kaos-tasks` came after it, with a JSON-RPC that is not
A2A's."""


def form_of(document: JsonView) -> Form:
    """Return the form of a card."""
    if isinstance(document.get("capabilities"), list):
        return "kaos"
    if "supportedProtocols" in document and not any(key in document for key in _TRANSPORTS):
        return "kaos-tasks"
    return "a2a"


def description_of(text: str, skills: Iterable[tuple[str, str]]) -> str:
    """Return the description of an agent for the model, with the names and descriptions of its
    skills.
    """
    lines = [f"- {name}: {description}" for name, description in skills]
    return cut_middle(
        "\n".join([text, "", "Its skills:", *lines] if lines else [text]), MAX_DESCRIPTION_BYTES
    )


@dataclass(frozen=True)
class Card:
    """A card as read."""

    form: Form
    document: JsonView

    def description(self, settings: RemoteSettings, description: str | None) -> str:
        """Return the agent's description for the model: the file's, else the card's; and the
        agent's skills.
        """
        text = (
            description
            or _text(self.document.get("description"))
            or f"Hands a task to the agent {settings.agent}."
        )
        skills = self.document.get("skills")
        known = (
            [each for each in skills if isinstance(each, Mapping)]
            if isinstance(skills, list)
            else []
        )
        return description_of(
            text, [(_text(each.get("name")), _text(each.get("description"))) for each in known]
        )


async def read_card(http: Http, settings: RemoteSettings) -> Card:
    """Read the agent's card. Raises ToolUnavailable if it is not available in time, or invalid."""
    seconds = settings.options.discovery_timeout
    try:
        async with asyncio.timeout(seconds):
            return await _first_card(http, settings)
    except TimeoutError:
        why = f"no answer within {count_of(seconds, 'second')} ('options.discoveryTimeout')"
    except (HttpFailure, ValueError) as error:
        why = str(error)
    raise ToolUnavailable(
        f"the card of the agent at {settings.address} can't be read: {one_line(why, 300)}"
    )


async def _first_card(http: Http, settings: RemoteSettings) -> Card:
    """Read the first card at the possible addresses. Raises HttpFailure, and ValueError for
    anything else there.
    """
    headers = [("Accept", b"application/json"), *settings.headers()]
    absent = wrong = ""
    for url in settings.cards:
        answer = await http.send(HttpRequest("GET", url, headers), limit=MAX_CARD_BYTES)
        if answer.status in _ABSENT:
            absent = absent or f"HTTP status {answer.status}"
        elif answer.status != 200:
            raise ValueError(
                f"HTTP status {answer.status}{NOT_LET_IN if answer.status in (401, 403) else ''}"
            )
        elif not answer.is_whole:
            raise ValueError(f"it is larger than {MAX_CARD_BYTES:,} bytes")
        elif (document := _document(answer)) is not None:
            return Card(form_of(document), document)
        else:
            wrong = "the document is not an agent card: expected a JSON object with a name"
    raise ValueError(wrong or absent)


def _document(answer: HttpAnswer) -> JsonView | None:
    try:
        document = answer.json()
    except ValueError:
        return None
    return (
        document if isinstance(document, dict) and isinstance(document.get("name"), str) else None
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
