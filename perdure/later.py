"""Tool calls that another system finishes: the token that names one, and how a run recognises it. Pure."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import Any, NamedTuple

from .json_types import JsonObject
from .messages import Exchanged, Postponed

MAX_TOKEN_CHARS = 2000
"""A run's id has at most 1,000 bytes."""


class Later(str):
    """The token of a call that another system finishes. A tool that returns it has its call wait for that."""

    seconds: float | None = None
    """How long the call waits; None for ever."""

    @classmethod
    def of(cls, run_id: str, secret: str, seconds: float | None = None) -> Later:
        """Return the token of a run's call."""
        token = cls(f"{urlsafe_b64encode(run_id.encode()).decode().rstrip('=')}.{secret}")
        token.seconds = seconds
        return token

    @property
    def record(self) -> Postponed:
        """What is recorded of it."""
        return Postponed(mark=mark_of(read_token(self).proof), seconds=self.seconds)


class ReadToken(NamedTuple):
    """What a token says."""

    run_id: str
    proof: str
    """What the run is shown of the secret: nobody learns the token from it."""


def read_token(text: str) -> ReadToken:
    """Return what a token says. Raises ValueError for a text that is none."""
    text = text.strip()
    run, dot, secret = text.partition(".")
    try:
        if not (dot and secret and len(text) <= MAX_TOKEN_CHARS):
            raise ValueError
        run_id = urlsafe_b64decode(f"{run}{'=' * (-len(run) % 4)}".encode("ascii")).decode()
    except (ValueError, binascii.Error):
        raise ValueError("this is no token of a tool call: expected what `context.later()` has given, whole") from None
    return ReadToken(run_id, _digest(secret))


def mark_of(proof: str) -> str:
    """Return what is recorded of a token before the call is finished."""
    return _digest(proof)


def _digest(text: str) -> str:
    return blake2b(text.encode(errors="replace"), digest_size=16).hexdigest()


class Completion(Exchanged):
    """What finishes a call: the argument of the update `complete`."""

    proof: str
    """Of the token (`ReadToken.proof`)."""
    value: Any = None
    """The result, as a tool would return it: any JSON value."""
    error: str | None = None
    """Why there is no result; the model is told."""
    by: str | None = None
    """Who finishes it, as far as they say."""


class CompletedCall(Exchanged):
    """A call that does not wait any longer, so that a further completion can be told how it ended."""

    mark: str
    """Of the token."""
    digest: str = ""
    """Of the completion; "" for a call that was not completed."""
    account: str
    """How it ended, in words."""


class AwaitedCall(Exchanged):
    """A tool call that another system is to finish (`ToolContext.later`)."""

    call_id: str
    run_id: str | None = None
    """The called run in which it waits; None for the run that was asked."""
    name: str
    """The tool's name."""
    arguments: JsonObject
    iteration: int
    since: float
    """When it began to wait, in seconds since the epoch."""
    deadline: float | None = None
    """When it fails by itself, in seconds since the epoch; None for never."""
