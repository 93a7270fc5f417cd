"""Tool calls that another system finishes: the token of such a call, and its recognition by a run.
Pure.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import Any, NamedTuple

from ..json_types import JsonObject
from ..messages import Exchanged, Postponed

MAX_TOKEN_CHARS = 2000
"""A run's id has at most 1,000 bytes."""


class CompletionToken(str):
    """The token of a call that another system finishes. If a tool returns it, its call waits for
    that.
    """

    seconds: float | None = None
    """The time limit of the wait; None for ever."""

    @classmethod
    def of(cls, run_id: str, secret: str, seconds: float | None = None) -> CompletionToken:
        """Return the token of a run's call."""
        token = cls(f"{urlsafe_b64encode(run_id.encode()).decode().rstrip('=')}.{secret}")
        token.seconds = seconds
        return token

    @property
    def record(self) -> Postponed:
        """Return the recorded form of the token."""
        return Postponed(mark=mark_of(read_token(self).proof), seconds=self.seconds)


class ReadToken(NamedTuple):
    """The content of a token."""

    run_id: str
    proof: str
    """A proof of the secret for the run, from which the token can't be derived."""


def read_token(text: str) -> ReadToken:
    """Return the content of a token. Raises ValueError for a text that is not a token."""
    text = text.strip()
    run, dot, secret = text.partition(".")
    try:
        if not (dot and secret and len(text) <= MAX_TOKEN_CHARS):
            raise ValueError
        run_id = urlsafe_b64decode(f"{run}{'=' * (-len(run) % 4)}".encode("ascii")).decode()
    except (ValueError, binascii.Error):
        raise ValueError(
            "this is not a token of a tool call: expected the whole token that `context.later()` "
            "returned"
        ) from None
    return ReadToken(run_id, _digest(secret))


def mark_of(proof: str) -> str:
    """Return the recorded mark of a token whose call is not finished yet."""
    return _digest(proof)


def _digest(text: str) -> str:
    return blake2b(text.encode(errors="replace"), digest_size=16).hexdigest()


class Completion(Exchanged):
    """Finishes a call: the argument of the update `complete`."""

    proof: str
    """The token's `ReadToken.proof`."""
    value: Any = None
    """The result, as a tool would return it: any JSON value."""
    error: str | None = None
    """Why there is no result; the model reads it."""
    by: str | None = None
    """The finisher's name, as a claim."""


class CompletedCall(Exchanged):
    """A call that no longer waits, kept to report its end to a further completion."""

    mark: str
    """The token's mark."""
    digest: str = ""
    """The completion's digest; "" for a call that was not completed."""
    account: str
    """Its end, in words."""


class AwaitedCall(Exchanged):
    """A tool call that another system is to finish (`ToolContext.later`)."""

    call_id: str
    run_id: str | None = None
    """The called run in which it waits; None for the run itself."""
    name: str
    """The tool's name."""
    arguments: JsonObject
    iteration: int
    since: float
    """When it began to wait, in seconds since the epoch."""
    deadline: float | None = None
    """When it fails automatically, in seconds since the epoch; None for never."""
