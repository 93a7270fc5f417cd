"""The loop's reaction to a failed model call: one row for each kind of failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from ..errors import ModelErrorKind
from ..event_data import HoldReason


class Aftermath(NamedTuple):
    """The reactions, in their order."""

    asked_again: Literal["attempts", "waits", "shortened", "never"]
    """A retry with the same model: `attempts`, up to `max_llm_retries` times with growing pauses;
    `waits`, for as long as `rate_limit_seconds` allow, at the cost of no attempt (as `attempts`
    while there are other models); `shortened`, with a shorter conversation, once no other model
    takes the whole one."""
    passed_on: bool
    """Whether the next model of the agent's `fallback` is called, if there is one."""
    held_for: HoldReason | None
    """The reason for which the run is held, if `on_failure` is `hold`; None: the run fails in any
    case."""


# fmt: off
AFTER: Mapping[str, Aftermath] = {
    #                             asked again  passed on  held for
    "rate_limit":       Aftermath("waits",     True,      "rate_limit"),
    "overloaded":       Aftermath("attempts",  True,      "server"),
    "timeout":          Aftermath("attempts",  True,      "server"),
    "connection":       Aftermath("attempts",  True,      "server"),
    "server":           Aftermath("attempts",  True,      "server"),
    "empty":            Aftermath("attempts",  True,      "server"),
    "invalid_response": Aftermath("attempts",  True,      "server"),
    "not_found":        Aftermath("never",     True,      "server"),
    "quota_exhausted":  Aftermath("never",     True,      "rate_limit"),
    "authentication":   Aftermath("never",     True,      "credentials"),
    "permission":       Aftermath("never",     True,      "credentials"),
    "configuration":    Aftermath("never",     True,      "credentials"),
    "refusal":          Aftermath("never",     True,      None),
    "context_length":   Aftermath("shortened", True,      "context"),
    "unsupported":      Aftermath("never",     True,      None),
    "no_tools":         Aftermath("never",     True,      None),
    # perdure must mend a request that one model's API rejects; `unsupported` is content that an API
    # can't take.
    "bad_request":      Aftermath("never",     False,     None),
}
# fmt: on
_UNKNOWN = Aftermath("never", True, None)


def after(kind: ModelErrorKind | str | None) -> Aftermath:
    """Return the row of a kind; after a kind that this version does not know, the next model is
    called or the run ends.
    """
    return AFTER.get(kind or "", _UNKNOWN)


def may_pass(kind: ModelErrorKind) -> bool:
    """Return whether another attempt with the same request may succeed."""
    return after(kind).asked_again in ("attempts", "waits")
