"""The problems with which a gateway refuses requests: a status, a kind for programs, and a text for
people.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, TypeAlias, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, FailFast, ValidationError
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from ..client.connection_errors import REMEDIES
from ..errors import (
    ApprovalError,
    CompletionError,
    ConfigurationError,
    DeletionError,
    GoOnError,
    PayloadTooLargeError,
    RunError,
    RunNotFound,
    SessionError,
    UnknownCallError,
)
from ..json_types import JsonObject
from ..payloads.encryption.keys import EncryptionError
from ..text import fault_text


class _FirstFault(FailFast):
    """Hashable, so that it can be part of a union."""

    __hash__ = object.__hash__


Each = TypeVar("Each")
Listed: TypeAlias = Annotated[list[Each], _FirstFault()]
"""A list in a request: only its first invalid element produces an error."""
WITHOUT_CONTROLS = r"^[^\x00-\x1f\x7f]*$"
"""Matches a text without control characters: databases refuse some, and people do not see them."""
MAX_ASKED_CHARS = 1000
"""Maximum length of an id, or of the conditions of a list."""
MAX_FAULTS = 10
"""The number of faults reported for one request."""


class Lenient(BaseModel):
    """A client's data: unknown fields are ignored."""

    model_config = ConfigDict(extra="allow")


class HttpProblem(Exception):
    """A request failed or was refused. Each dialect writes the problem in its own form."""

    def __init__(
        self, status: int, kind: str, message: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        """HTTP's."""
        self.kind = kind
        """For programs: one of the kinds listed in the documentation."""
        self.headers = dict(headers or {})

    @property
    def body(self) -> ProblemBody:
        """The body as in RFC 9457."""
        return ProblemBody(status=self.status, kind=self.kind, detail=str(self))


class BadParameter(HttpProblem):
    """A request has an invalid parameter."""

    def __init__(self, parameter: str, message: str) -> None:
        super().__init__(400, "invalid_request", message)
        self.parameter = parameter


class ProblemBody(BaseModel):
    """The body of an answer that reports an error (RFC 9457)."""

    status: int
    """HTTP's."""
    kind: str
    """For programs."""
    detail: str
    """For people: what is wrong, what was expected, what to do."""


_APPROVAL_STATUS = {
    "unknown": 404,
    "decided": 409,
    "stale": 409,
    "arguments": 422,
    "denied": 403,
    "unvouched": 403,
    "not_entitled": 403,
    "vouch": 503,
    "unconfirmed": 503,
}
_COMPLETION_STATUS = {"unknown": 404, "too_large": 413, "unreadable": 422}
_GO_ON_STATUS = {"options": 422, "unconfirmed": 503}
_TRY_AGAIN = ("early", "crowded", "unconfirmed")
_SESSION_STATUS = {
    "busy": 409,
    "closing": 409,
    "refused": 409,
    "ended": 409,
    "too_large": 413,
    "unconfirmed": 503,
    "vouch": 503,
}
_RPC_STATUS = {RPCStatusCode.NOT_FOUND: 404, RPCStatusCode.RESOURCE_EXHAUSTED: 429}


def problem_of(error: Exception) -> HttpProblem | None:
    """Return the problem for an error of perdure or Temporal; None for an unforeseen one."""
    match error:
        case HttpProblem():
            return error
        case RunNotFound() | UnknownCallError():
            return HttpProblem(404, "not_found", str(error))
        case ApprovalError():
            return HttpProblem(
                _APPROVAL_STATUS.get(error.kind, 409), f"approval_{error.kind}", str(error)
            )
        case GoOnError():
            return HttpProblem(
                _GO_ON_STATUS.get(error.kind, 409), f"go_on_{error.kind}", str(error)
            )
        case CompletionError(kind=kind) if kind in _TRY_AGAIN:
            return HttpProblem(503, f"call_{kind}", str(error), headers={"Retry-After": "5"})
        case CompletionError(kind=kind):
            return HttpProblem(_COMPLETION_STATUS.get(kind, 409), f"call_{kind}", str(error))
        case SessionError():
            return HttpProblem(
                _SESSION_STATUS.get(error.kind, 409), f"session_{error.kind}", str(error)
            )
        case DeletionError():
            return HttpProblem(409, f"deletion_{error.kind}", str(error))
        case PayloadTooLargeError():
            return HttpProblem(413, "too_large", str(error))
        case RunError():
            return HttpProblem(422, error.kind, str(error))
        case WorkflowAlreadyStartedError():
            return HttpProblem(
                409,
                "id_in_use",
                f"A run of the id {error.workflow_id!r} is there already: give another id",
            )
        case ValidationError():
            return HttpProblem(422, "invalid", faults_in(error))
        case EncryptionError(key_id=str()):
            return HttpProblem(409, "encrypted", str(error))
        case ConfigurationError():
            return HttpProblem(500, "configuration", str(error))
        case RPCError(status=RPCStatusCode.UNAVAILABLE):
            return HttpProblem(
                503,
                "temporal_unavailable",
                f"The gateway's Temporal server does not answer ({error.message}). Runs are safe, "
                "and continue when it is back: send the request again then",
            )
        case RPCError(status=status):
            return HttpProblem(
                _RPC_STATUS.get(status, 503),
                f"temporal_{status.name.lower()}",
                f"The gateway's Temporal server: {error.message}; "
                f"{REMEDIES.get(status, 'see `perdure doctor`')}",
            )
        case ValueError() | TypeError():
            return HttpProblem(422, "invalid", str(error))
    return None


def require_plain(text: str) -> None:
    """Raise `HttpProblem` for an id or a filter that the server or its database would refuse."""
    if len(text) > MAX_ASKED_CHARS or not re.fullmatch(WITHOUT_CONTROLS, text):
        raise HttpProblem(
            422,
            "invalid",
            f"{text!r:.200}: expected at most {MAX_ASKED_CHARS} characters, and no control "
            "characters",
        )


def too_large(limit: int) -> HttpProblem:
    """Return the refusal of a request that exceeds this many bytes."""
    return HttpProblem(413, "too_large", f"a request has at most {limit:,} bytes")


def path_of(id: str) -> str:
    """Return an id, encoded for the path of a URL, keeping its slashes."""
    return quote(id, safe="/:@!$&'()*+,;=~")


def run_headers(id: str) -> dict[str, str]:
    """Return the response header that names the run; an id not allowed in headers is
    percent-encoded.
    """
    return {"x-perdure-run": id if id.isascii() and id.isprintable() else path_of(id)}


def faults_in(error: ValidationError) -> str:
    """Return the faults of a request as one line: the first ones, each after its place, but
    validators' texts alone.
    """
    count, found = (
        error.error_count(),
        error.errors(include_url=False, include_input=False)[:MAX_FAULTS],
    )
    more = [f"and {count - MAX_FAULTS:,} more"] if count > MAX_FAULTS else []
    return "; ".join([*(_fault(dict(each)) for each in found), *more])


def _fault(detail: JsonObject) -> str:
    place = "" if "error" in detail.get("ctx", {}) else ".".join(map(str, detail["loc"]))
    return f"{place}: {fault_text(detail)}" if place else fault_text(detail)
