"""The errors that perdure raises.

Exception
├── LoadError (ValueError)            a file is wrong; names file, field, line (§2, §4)
│   └── ReferencedFileNotFoundError   a `${file:…}` does not exist; a FileNotFoundError too
├── RenderError (ValueError)          a template is wrong, or an input forges a role marker (§5, §6)
├── UnsupportedMediaError (ValueError)    the model's API does not accept the media
├── InvokerError                      no renderer, parser or provider has that key (§11)
├── ToolArgumentError (ValueError)    the model's tool arguments are not a JSON object (§9.8)
├── ModelError                        a model call failed, for one of the listed reasons
├── ConfigurationError                the set-up is wrong; names the command to type
├── ApprovalError                     a decision about a waiting tool call was not accepted
├── RunNotFound                       no run has that id, or it has ended already
├── GoOnError                         a held run was not resumed; `kind` is the reason
├── CompletionError                   a token did not finish its call; `kind` is the reason
├── DeletionError                     something was not deleted; `kind` is the reason
├── UnknownCallError (LookupError)    the run has no result of such a tool call
├── SessionError                      a session did not accept a message; `kind` is the reason
└── RunError                          a run ended without a result
    ├── RunCancelled
    ├── GuardrailError                an input or output guardrail denied (§13.4)
    ├── MaxIterationsError            the iteration cap was reached (§9.1); a RuntimeError too
    ├── OutputError                   the answer does not fit the agent's `outputs`
    ├── LimitExceededError            a budget of RunOptions ran out, or calls were repeated
    ├── ExecuteError                  the model call failed for good (§9.10)
    ├── ToolNotRegisteredError        a tool has no handler (§9.9); a ValueError too
    └── PayloadTooLargeError          a value exceeds Temporal's limit; a ValueError too
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from .messages import Message, Usage
    from .tool_calls import PendingApproval


def warn_caller(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the position of the first caller outside perdure."""
    frame, level = sys._getframe(1), 2
    while (
        frame.f_back is not None
        and frame.f_globals.get("__name__", "").partition(".")[0] == "perdure"
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


class LoadError(ValueError):
    """A `.prompty` file can't be loaded."""

    def __init__(
        self,
        message: str,
        *,
        file: str | PathLike[str] | None = None,
        field: str | None = None,
        line: int | None = None,
    ) -> None:
        self.message, self.file, self.field, self.line = message, file, field, line
        place = ":".join(str(part) for part in (file, line) if part is not None)
        super().__init__(
            " ".join(filter(None, [place and f"{place}:", field and f"{field}:", message]))
        )


class ReferencedFileNotFoundError(LoadError, FileNotFoundError):
    """A `${file:path}` in a `.prompty` file refers to a file that does not exist (§2.10)."""


class RenderError(ValueError):
    """A template can't be rendered, or the rendered text can't be parsed into messages."""

    def __init__(
        self, message: str, *, line: int | None = None, missing_input: str | None = None
    ) -> None:
        super().__init__(message)
        self.line = line
        """The line of the template, from 1; None if the error is not about one line."""
        self.missing_input = missing_input
        """The name of a required input that has no value, if that is the error."""


class UnsupportedMediaError(ValueError):
    """The API of the agent's model does not accept such an image, file or recording; the text lists
    the accepted types.
    """


class InvokerError(Exception):
    """The agent names an unregistered key (§11)."""


class ToolArgumentError(ValueError):
    """The arguments of a tool call are not a JSON object, even after the repairs of §9.8."""


class ConfigurationError(Exception):
    """The set-up is incomplete or wrong; the text names the missing part and the command to
    type.
    """


class _KindError(Exception):
    """An error with a `kind`, the reason in one word."""

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class ApprovalError(_KindError):
    """A decision about a tool call was not accepted, and changes nothing; an unconfirmed one may
    still arrive.

    `kind` is the reason: `unknown` call id, `decided` already in another way, `stale` digest,
    edited `arguments` that do not fit the schema, denied by the tool `guardrail`, an `answer` that
    the question does not accept, a `question` that needs an answer, an `approval` that does not, a
    `too_large` decision, `ended` run, `unconfirmed` by any worker, `unreadable` decision.
    """

    def __init__(self, message: str, *, kind: str, pending: Sequence[PendingApproval] = ()) -> None:
        super().__init__(message, kind=kind)
        self.pending = list(pending)
        """The calls of the run that wait for a person, if they could be read."""


class RunNotFound(Exception):
    """The server has no run of that id, the workflow of that id is not a run, or the run has ended
    and accepts no more messages.
    """


ModelErrorKind = Literal[
    "rate_limit",
    "overloaded",
    "timeout",
    "connection",
    "server",
    "authentication",
    "permission",
    "bad_request",
    "not_found",
    "no_tools",
    "unsupported",
    "quota_exhausted",
    "context_length",
    "refusal",
    "empty",
    "invalid_response",
    "configuration",
]


class ModelError(Exception):
    """One model call failed. Its `kind` decides the run's reaction (`perdure docs providers`)."""

    def __init__(
        self,
        message: str,
        *,
        kind: ModelErrorKind,
        provider: str,
        status: int | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        address: str | None = None,
        model: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.provider = provider
        self.status = status
        self.request_id = request_id
        self.retry_after = retry_after
        """Seconds that the provider asks to wait; None if it gives none."""
        self.address = address
        """The host of the server, and its port."""
        self.model = model
        """The requested model."""
        self.limit: int | None = None
        """For a request that is too long: the model's limit, mostly in tokens, if the provider
        names it."""
        self.asked: int | None = None
        """The size of the request, in the same unit."""
        self.usage: Usage | None = None
        """The usage of the failed call; None if it is unknown, or nothing."""
        self.cost_usd: float | None = None
        """The cost of that usage, in US dollars; None if unknown."""
        self.so_far: Any = None
        """The progress of the call's attempts, for its next attempt."""

    def __str__(self) -> str:
        return self.message  # Without any parts removed since.

    @property
    def account(self) -> str:
        """Return the message, and the details of the call: status, address, model, request id."""
        known = [
            f"status {self.status}" if self.status else "",
            f"from {self.address}" if self.address else "",
            f"model {self.model}" if self.model else "",
            f"request {self.request_id}" if self.request_id else "",
        ]
        details = ", ".join(filter(None, known))
        return f"{self.message} ({details})" if details else self.message


class RunError(Exception):
    """A run ended without a result; `messages` is its conversation until then."""

    kind = "failed"

    def __init__(
        self,
        message: str,
        *,
        kind: str | None = None,
        reason: str | None = None,
        messages: Sequence[Message] = (),
        iterations: int = 0,
    ) -> None:
        super().__init__(message)
        self.kind = kind or type(self).kind
        self.reason = reason
        self.messages = list(messages)
        self.iterations = iterations


class RunCancelled(RunError):
    """The run was cancelled (§13.2); `reason` is the canceller's."""

    kind = "cancelled"


class GuardrailError(RunError):
    """An input or output guardrail denied (§13.4); `reason` is the guardrail's."""

    kind = "guardrail_denied"


class MaxIterationsError(RunError, RuntimeError):
    """The model had not given its answer when the iteration cap was reached (§9.1)."""

    kind = "max_iterations"
    option = "max_iterations"
    """The field of `RunOptions` that is the limit."""


class OutputError(RunError):
    """The model's answer does not fit the agent's `outputs`, or the `output_type` of the call;
    `reason` explains it.
    """

    kind = "output"
    text = ""
    """The answer, as the model wrote it."""


class LimitExceededError(RunError):
    """A budget of `RunOptions` ran out, or the model repeated its tool calls too often; `reason`
    names which.
    """

    kind = "limit_exceeded"
    option: str | None = None
    """The field of `RunOptions` that is the limit; None if a higher value would not help."""

    @classmethod
    def of_option(cls, option: str, message: str, *, reason: str | None) -> LimitExceededError:
        """Return the error of the limit that this option sets."""
        error = cls(message, reason=reason)
        error.option = option
        return error


class ExecuteError(RunError):
    """The model call failed for good (§9.10)."""

    kind = "execute"


class ToolNotRegisteredError(RunError, ValueError):
    """A declared or requested tool has no handler (§9.9)."""

    kind = "tool_not_registered"


class PayloadTooLargeError(RunError, ValueError):
    """A value exceeds Temporal's limit for payloads; the text names the value, its size and the
    limit.
    """

    kind = "payload_too_large"


RUN_ERRORS: dict[str, type[RunError]] = {
    error.kind: error
    for error in (
        RunCancelled,
        GuardrailError,
        MaxIterationsError,
        OutputError,
        LimitExceededError,
        ExecuteError,
        ToolNotRegisteredError,
        PayloadTooLargeError,
    )
}
"""Error kind, which is also the Temporal error type → the class of the error for the caller."""


class GoOnError(_KindError):
    """A held run was not resumed, or not as requested; an unconfirmed request may still arrive.

    `kind` is the reason: `not_held`; `options` that can't change, or have an invalid value; a
    `budget` that would still be used up; `ended` run; `unconfirmed` by any worker; `unreadable`, or
    `crowded` out by other requests.
    """


class CompletionError(_KindError):
    """A tool call that waits for another system was not finished; an unconfirmed completion may
    still arrive.

    `kind` is the reason: `unknown` or malformed token; `completed` before in another way, as the
    text explains; `ended` without being finished; `early`, before its tool has returned;
    `too_large` result; `unconfirmed` by any worker; `unreadable`, or `crowded` out by other
    requests.
    """


class DeletionError(_KindError):
    """Something was not deleted, or only in part; the next attempt continues where this one
    stopped.

    `kind` is the reason: `open`: it has not ended; `slow`: it has not ended after its termination;
    `other`: it is not a run.
    """


class UnknownCallError(LookupError):
    """The run has no tool call of that id, or none with a result; the text names the existing
    ones.
    """


class SessionError(_KindError):
    """A session did not accept a message; an unconfirmed one may still arrive.

    `kind` is the reason: `busy` with a run (or too many messages wait), `closing`: the session
    accepts no more messages, `ended` before the run of the message began, `unconfirmed` by any
    worker, `empty` or `too_large` message, `renumbered` run of a queued one, `refused` or
    `unreadable`, as the text explains.
    """

    def __init__(self, message: str, *, kind: str, message_id: str = "", reason: str = "") -> None:
        super().__init__(message, kind=kind)
        self.reason = reason
        """The reason why a message is unconfirmed."""
        self.message_id = message_id
        """Repeated under this id, the message counts once."""
