"""What goes wrong on the way to a remote agent, and with what it answers: in words, and whether it may pass."""

from __future__ import annotations

from typing import NamedTuple

import httpx
from a2a.client import A2AClientError, A2AClientTimeoutError
from a2a.utils.errors import A2AError, InternalError
from google.protobuf.json_format import Error as JsonFormatError

from ..kind import OutcomeUnknown
from ..refusals import was_refused
from .http import RefusedError

NONSENSE = (JsonFormatError, ValueError, TypeError, AttributeError, LookupError, RecursionError)
"""What reading an answer raises that is not as the protocol says."""
FAULTS = (A2AError, httpx.HTTPError, httpx.InvalidURL, OSError, *NONSENSE)
"""What the client raises."""
_PASSING_STATUS = frozenset({408, 425, 429})
_SHOWN = 300


class Fault(NamedTuple):
    """What went wrong."""

    text: str
    passing: bool
    """Whether the same request may succeed a little later."""
    refused: bool = False
    """Whether it is certain that the agent does not do what the request asks for."""


class AgentError(Exception):
    """A call has failed; the text is for the model."""


class AgentLost(AgentError, OutcomeUnknown):
    """The same, and the agent may do what it was asked to."""


def fault_of(error: BaseException) -> Fault:
    """What one of `FAULTS` means."""
    cause = error.__cause__ if isinstance(error, A2AClientError) and error.__cause__ is not None else error
    match cause:
        case RefusedError():
            return Fault(_short(cause), passing=False)
        case httpx.HTTPStatusError():
            return _of_status(cause.response)
        case httpx.ConnectError() | httpx.ConnectTimeout():
            return Fault(f"it can't be reached ({type(cause).__name__}): is it running?", passing=True, refused=True)
        case httpx.TimeoutException() | A2AClientTimeoutError():
            return Fault("it does not answer in time", passing=True)
        case httpx.UnsupportedProtocol() | httpx.InvalidURL():
            return Fault(_short(cause), passing=False, refused=True)
        case httpx.TooManyRedirects():
            return Fault(_short(cause), passing=False)
        case httpx.HTTPError():
            return Fault(f"the connection broke ({type(cause).__name__})", passing=True)
        case A2AError() if not isinstance(cause, A2AClientError):
            passing = isinstance(cause, InternalError)
            return Fault(f"it answers with an error: {_short(cause)}", passing=passing, refused=not passing)
        case _:
            return Fault(f"its answer makes no sense ({type(cause).__name__}): {_short(cause)}", passing=True)


def _of_status(response: httpx.Response) -> Fault:
    status = response.status_code
    passing = status >= 500 or status in _PASSING_STATUS
    if status in (401, 403):
        advice = ": it does not let this worker in; check 'connection.apiKey' and the variable that it refers to"
        return Fault(f"HTTP status {status}{advice}", passing=False, refused=True)
    return Fault(f"HTTP status {status}", passing=passing, refused=was_refused(status, response.headers))


def _short(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"
