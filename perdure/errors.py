"""Everything that perdure raises.

Exception
├── LoadError (ValueError)            the file is wrong: says file, field, line (§2, §4)
│   └── ReferencedFileNotFoundError   a `${file:…}` names no file; also a FileNotFoundError
├── RenderError (ValueError)          the template is wrong, or an input forged a role marker (§5, §6)
├── InvokerError                      no renderer, parser or provider under that key (§11)
├── ToolArgumentError (ValueError)    the model's tool arguments are no JSON object (§9.8)
├── ModelError                        one model call failed, classified
├── ConfigurationError                the set-up is wrong: says what to type
└── RunError                          a run ended without a result
    ├── RunCancelled
    ├── GuardrailError                an input or output guardrail denied (§13.4)
    ├── MaxIterationsError            the iteration cap (§9.1); also a RuntimeError
    ├── LimitExceededError            a budget of RunOptions, or the same call over and over
    ├── ExecuteError                  the model call failed for good (§9.10)
    ├── ToolNotRegisteredError        no handler for a tool (§9.9); also a ValueError
    └── PayloadTooLargeError          a value exceeds what Temporal can carry; also a ValueError
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from .messages import Message


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
        super().__init__(" ".join(filter(None, [place and f"{place}:", field and f"{field}:", message])))


class ReferencedFileNotFoundError(LoadError, FileNotFoundError):
    """A `${file:path}` of a `.prompty` file names no file (§2.10)."""


class RenderError(ValueError):
    """A template can't be rendered, or its rendering can't be parsed into messages."""

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        """The line of the template, counted from 1; None when it is not about one line."""


class InvokerError(Exception):
    """Nothing is registered under the key that the agent names (§11)."""


class ToolArgumentError(ValueError):
    """The arguments of a tool call are no JSON object, even after every repair of §9.8."""


class ConfigurationError(Exception):
    """The set-up lacks something; the text names it and says what to type."""


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
    "quota_exhausted",
    "context_length",
    "refusal",
    "invalid_response",
    "configuration",
]


class ModelError(Exception):
    """One model call failed.

    `retryable` follows from `kind`: a rate limit, an overload, a time-out, a lost connection and a
    server fault may pass; everything else will fail again in the same way.
    """

    RETRYABLE: ClassVar[frozenset[str]] = frozenset({"rate_limit", "overloaded", "timeout", "connection", "server"})

    def __init__(
        self,
        message: str,
        *,
        kind: ModelErrorKind,
        provider: str,
        status: int | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.provider = provider
        self.status = status
        self.request_id = request_id
        self.retry_after = retry_after
        """Seconds that the provider asked to wait; None when it did not say."""

    @property
    def retryable(self) -> bool:
        return self.kind in self.RETRYABLE


class RunError(Exception):
    """A run ended without a result; what it had said and done is in `messages`."""

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
    """The run was cancelled (§13.2); `reason` is what the canceller gave."""

    kind = "cancelled"


class GuardrailError(RunError):
    """An input or output guardrail denied (§13.4); `reason` is the guardrail's."""

    kind = "guardrail_denied"


class MaxIterationsError(RunError, RuntimeError):
    """The iteration cap was reached before the model gave its answer (§9.1)."""

    kind = "max_iterations"


class LimitExceededError(RunError):
    """A budget of `RunOptions` ran out, or the model repeated one call too often; `reason` names it."""

    kind = "limit_exceeded"


class ExecuteError(RunError):
    """The model call failed for good (§9.10)."""

    kind = "execute"


class ToolNotRegisteredError(RunError, ValueError):
    """A declared or requested tool has no handler (§9.9)."""

    kind = "tool_not_registered"


class PayloadTooLargeError(RunError, ValueError):
    """A value is larger than Temporal can carry; the text names it, its size and the limit."""

    kind = "payload_too_large"


RUN_ERRORS: dict[str, type[RunError]] = {
    error.kind: error
    for error in (
        RunCancelled,
        GuardrailError,
        MaxIterationsError,
        LimitExceededError,
        ExecuteError,
        ToolNotRegisteredError,
        PayloadTooLargeError,
    )
}
"""Error kind, also the Temporal error type, → the class that the caller sees."""
