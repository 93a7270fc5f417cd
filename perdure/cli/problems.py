"""Messages of the command line for errors, and their exit codes."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from ..commands import command_line
from ..errors import (
    ApprovalError,
    CompletionError,
    ConfigurationError,
    DeletionError,
    GoOnError,
    InvokerError,
    LoadError,
    RenderError,
    RunError,
    RunNotFound,
    SessionError,
    UnknownCallError,
    UnsupportedMediaError,
)
from .console import describe_call

if TYPE_CHECKING:
    from ..tool_calls import PendingApproval

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
_NO_NAMESPACE = re.compile(r"^Namespace (\S+) is not found")


class UsageProblem(Exception):
    """Raised for a wrong argument of the command; the text names it and says what was expected and
    what to type.
    """


class Failure(Exception):
    """Raised when the command could not do its work; the text says why and what to type next."""


class Explanation(NamedTuple):
    """Message for the user, and the command's exit code."""

    text: str
    exit_code: int


_EXPECTED = (
    Failure,
    ConfigurationError,
    LoadError,
    RenderError,
    InvokerError,
    UnsupportedMediaError,
    RunError,
    RunNotFound,
    UnknownCallError,
    SessionError,
    GoOnError,
    CompletionError,
    DeletionError,
)


def explained(error: Exception) -> str:
    """Return the text of an expected error. Raises any other error again: it is a fault of the
    program.
    """
    if (explanation := explain(error)) is None:
        raise error
    return explanation.text


def error_text(error: Exception) -> str:
    """Return the text of any error, for a list of several."""
    explanation = explain(error)
    return explanation.text if explanation else f"{type(error).__name__}: {error}"


def explain(error: Exception) -> Explanation | None:
    """Return the message about the error and the exit code; None for an unexpected error."""
    if isinstance(error, ApprovalError):
        return Explanation(
            "".join([str(error), *[_pending_line(each) for each in error.pending]]), FAILED
        )
    if isinstance(error, UsageProblem):
        return Explanation(str(error), USAGE)
    if isinstance(error, _EXPECTED):
        return Explanation(str(error), FAILED)
    return _explain_temporal(error) if "temporalio" in sys.modules else None


def _pending_line(pending: PendingApproval) -> str:
    shown = describe_call(pending.name, pending.arguments)
    return f"\n  waiting: {pending.call_id} (digest {pending.digest})  {shown}"


def _explain_temporal(error: Exception) -> Explanation | None:
    from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
    from temporalio.service import RPCError, RPCStatusCode

    from ..client.connection_errors import REMEDIES

    if isinstance(error, WorkflowAlreadyStartedError):
        run = error.workflow_id
        return Explanation(
            f"the run {run!r} is open, expected an unused id: choose another --id, or follow "
            f"that run: {command_line('watch', run)}",
            FAILED,
        )
    if isinstance(
        error, ApplicationError
    ):  # A value that is lost, changed or refused, where it is read.
        return Explanation(error.message, FAILED)
    if not isinstance(error, RPCError):
        return None
    if error.status is RPCStatusCode.NOT_FOUND and (found := _NO_NAMESPACE.search(error.message)):
        return Explanation(
            f"the server has no namespace {found[1]!r}: expected the name of one in "
            "TEMPORAL_NAMESPACE, or in the profile of temporal.toml. An administrator creates it: "
            f"temporal operator namespace create --namespace {found[1]}",
            FAILED,
        )
    hint = REMEDIES.get(
        error.status, "`perdure ls` lists the runs of this namespace (TEMPORAL_NAMESPACE)"
    )
    return Explanation(f"Temporal: {error.message} ({error.status.name}); {hint}", FAILED)
