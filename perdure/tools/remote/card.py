"""Reads the card of a remote agent, of today's form or an older one, and tells by it how the agent is spoken to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...text import cut_middle, one_line
from ..openapi.http import Http, HttpFailure
from ..openapi.request import Content, HttpRequest
from .a2a_card import CARD_PATHS, Form, form_of
from .settings import Settings, card_urls

MAX_CARD_BYTES = 256 * 1024
MAX_DESCRIPTION_BYTES = 8 * 1024
NO_CARD = "what is there is no agent card"


class CardError(Exception):
    """There is no card that can be used; the text says why."""


@dataclass(frozen=True)
class Card:
    """A card as it was read."""

    form: Form
    document: Mapping[str, Any]

    def described(self, description: str | None, agent: str) -> str:
        """What the model is told of the agent: what the file says, else the card; and the agent's skills."""
        said = description or _text(self.document.get("description")) or f"Hands a task to the agent {agent}."
        skills = self.document.get("skills")
        known = [each for each in skills if isinstance(each, Mapping)] if isinstance(skills, list) else []
        lines = [f"- {_text(each.get('name'))}: {_text(each.get('description'))}" for each in known]
        return cut_middle("\n".join([said, "", "Its skills:", *lines] if lines else [said]), MAX_DESCRIPTION_BYTES)


async def read_card(http: Http, settings: Settings) -> Card:
    """The agent's card. Raises CardError when it can't be had in time, or is none."""
    seconds = settings.options.discovery_timeout
    try:
        async with asyncio.timeout(seconds):
            return await _first_card(http, settings)
    except TimeoutError:
        raise _unreadable(settings, f"no answer within {seconds:g} seconds") from None
    except (HttpFailure, ValueError) as error:
        raise _unreadable(settings, str(error)) from error


async def _first_card(http: Http, settings: Settings) -> Card:
    why = ""
    for url in card_urls(settings, CARD_PATHS):
        found = await _read(http, settings, url)
        if isinstance(found, Card):
            return found
        why = found if found.startswith(NO_CARD) else why or found
    raise _unreadable(settings, why)


async def _read(http: Http, settings: Settings, url: str) -> Card | str:
    """The card, or why there is none at this place. Raises CardError where it is of no use to look elsewhere."""
    headers = [("Accept", b"application/json"), *((name, value.encode()) for name, value in settings.headers.items())]
    answer = await http.send(HttpRequest("GET", url, headers, Content()), limit=MAX_CARD_BYTES)
    if answer.status in (404, 405, 410):
        return f"HTTP status {answer.status}"
    if answer.status != 200:
        raise _unreadable(settings, f"HTTP status {answer.status}")
    if not answer.is_whole:
        raise _unreadable(settings, f"it is larger than {MAX_CARD_BYTES:,} bytes")
    try:
        document = json.loads(answer.body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        return f"{NO_CARD}: expected a JSON object with a name"
    return Card(form_of(document), document)


def _unreadable(settings: Settings, why: str) -> CardError:
    return CardError(f"the card of the agent at {settings.shown} can't be read: {one_line(why, 300)}")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
