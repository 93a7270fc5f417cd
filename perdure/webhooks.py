"""Webhooks: notify a URL when a run waits, is held, ends or fails. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from .json_types import JsonObject
from .messages import Exchanged

NoticeType = Literal["run.waiting", "run.held", "run.done", "run.failed", "run.cancelled"]
SECRET = "PERDURE_WEBHOOK_SECRET"
"""The prefix of the workers' variables with the secrets of webhooks."""
SECRET_PREFIX = "whsec_"
MAX_WEBHOOKS = 10
"""The most webhooks of one run."""
MAX_URL_CHARS = 2000
_PLAIN_URL = re.compile(r"^[hH][tT][tT][pP][sS]?://[^\s/?#@\\]+([/?#][^\s\\]*)?$")
"""Without a user or a password; the worker parses it again before it sends."""


class Webhook(BaseModel):
    """An address that receives signed requests about a run (Standard Webhooks); a plain URL stands
    for one that receives all.
    """

    model_config = ConfigDict(extra="forbid")

    url: str = Field(max_length=MAX_URL_CHARS)
    """Where each notice is posted: `https://…`, without a secret in it."""
    events: list[NoticeType] | None = Field(
        default=None, min_length=1, exclude_if=lambda events: events is None
    )
    """The types of notices to send; None for all."""
    secret: str = Field(
        default=SECRET, pattern=f"^{SECRET}[A-Z0-9_]*$", exclude_if=lambda name: name == SECRET
    )
    """The name of the workers' variable with the secret (`whsec_…`) that signs the notices."""

    @model_validator(mode="before")
    @classmethod
    def _accept_url(cls, data: Any) -> Any:
        return {"url": data} if isinstance(data, str) else data

    @field_validator("url")
    @classmethod
    def _require_address(cls, url: str) -> str:
        if not _PLAIN_URL.fullmatch(url):
            raise ValueError(
                "expected a plain URL, https://HOST/PATH, without a user or a password in it"
            )
        return url

    def takes(self, type: str) -> bool:
        """Return whether it receives notices of this type."""
        return self.events is None or type in self.events


def read_webhooks(given: Any) -> Any:
    """Return a list of webhooks; a single one, or a text of URLs separated by commas, stands for
    such a list.
    """
    return [
        part
        for each in _as_list(given)
        for part in (each.split(",") if isinstance(each, str) else [each])
    ]


def _as_list(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [] if given is None else [given]


def distinct_webhooks(*lists: Iterable[Webhook]) -> list[Webhook]:
    """Return all of them, each once."""
    found: list[Webhook] = []
    for each in (webhook for webhooks in lists for webhook in webhooks):
        if each not in found:
            found.append(each)
    return found


PUSHED = {
    "run.waiting": "TASK_STATE_INPUT_REQUIRED",
    "run.done": "TASK_STATE_COMPLETED",
    "run.failed": "TASK_STATE_FAILED",
    "run.cancelled": "TASK_STATE_CANCELED",
}
"""The notices to A2A clients, by A2A's names for the state of the task."""


class PushTarget(Exchanged):
    """An A2A client's push notification target for one run (a push notification config)."""

    id: str = Field(min_length=1, max_length=200)
    url: str = Field(max_length=MAX_URL_CHARS, pattern=_PLAIN_URL.pattern)
    sealed: str = Field(default="", exclude_if=lambda sealed: not sealed)
    """The token and the credentials to send, encrypted with the workers' key (`call_secrets`)."""


class PushChange(Exchanged):
    """Adds such a target to a run or, by its id alone, removes it: the argument of the signal
    `push`.
    """

    target: PushTarget | None = None
    removed: str = ""


class NoticeInput(Exchanged):
    """One notice, and its receivers: the argument of the workflow `perdure.Notice`."""

    id: str
    """The same for each attempt and each receiver, so that a receiver can ignore duplicates."""
    type: str
    time: float
    """The time of the event, in seconds since the epoch."""
    data: JsonObject
    webhooks: list[Webhook] = []
    push: list[PushTarget] = Field(default=[], exclude_if=lambda targets: not targets)
    first_pause: float = 5.0
    """Seconds after the first attempt; each further pause is four times as long, up to six
    hours."""


def secret_problem(variable: str, value: str) -> str:
    """Return why notices can't be signed with the secrets that the variable has as its value; ""
    where they can.
    """
    secrets = value.split()
    if secrets and all(map(_is_secret, secrets)):
        return ""
    found = "has a value that is not a secret" if secrets else "has no secret"
    return (
        f"variable {variable} {found}: expected `{SECRET_PREFIX}` and at least 24 bytes in "
        f"base64, such as `echo {SECRET_PREFIX}$(openssl rand -base64 32)` prints"
    )


def _is_secret(text: str) -> bool:
    try:
        return (
            text.startswith(SECRET_PREFIX)
            and len(base64.b64decode(text[len(SECRET_PREFIX) :], validate=True)) >= 24
        )
    except binascii.Error:
        return False
