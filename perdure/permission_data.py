"""The data of the events about a tool call that waits for a person (`perdure docs approvals`)."""

from __future__ import annotations

from typing_extensions import TypedDict

from .json_types import JsonObject


class PermissionRequestedData(TypedDict):
    name: str
    arguments: JsonObject
    kind: str
    """`approval`, or `question`: then `arguments` has its text."""
    reason: str | None
    """Why a person is asked, if the tool or a guardrail has said so."""
    deadline: float | None
    """When it is denied by itself, in seconds since the epoch; None for never."""
    choices: list[str]
    """The answers that a question suggests, or allows."""
    description: str | None
    schema: JsonObject | None
    """The JSON Schema that edited arguments must fit; None where that is not known."""
    digest: str
    """Identifies the call with these arguments: `approve(digest=…)`."""


class PermissionCompletedData(TypedDict):
    name: str
    approved: bool
    by: str | None
    """Who decided, as far as they said."""
    reason: str | None
    """Why it was denied."""
    arguments: JsonObject | None
    """What ran in place of the model's arguments; None where nothing was edited."""
    answer: str | None
    """To a question; None where it was not answered, and for approvals."""
    digest: str
    """Of the call, as in `permission_requested`."""
