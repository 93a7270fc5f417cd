"""The step of an iteration that calls the model, and its retries (§9.10)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ..conversation import Conversation
from ..errors import ExecuteError, ModelError
from ..event_data import EventType, LlmCompleteData, LlmStartData, LoggedData, StatusData, TokenData
from ..messages import ModelReply
from ..options import RunOptions
from .effects import Cancelled, Effects
from .limits import deadline, time_is_over
from .state import LoopState, usage_data

Emit = Callable[[EventType, LoggedData], None]
MAX_WAIT_SECONDS = 60.0
MIN_COUNTED_SECONDS = 1.0
"""Each wait for a rate limit counts as this much at least, so that a provider which always says "retry at once" can't
keep a run for ever."""


class ModelCalls:
    """Calls the model for one run: says so, tries until it succeeds, counts what was used, and tells it."""

    def __init__(
        self, effects: Effects, conversation: Conversation, options: RunOptions, state: LoopState, emit: Emit
    ) -> None:
        self._effects = effects
        self._conversation = conversation
        self._options = options
        self._state = state
        self._emit = emit
        self._deadline = deadline(options, state)

    async def make(self, *, with_tools: bool) -> ModelReply:
        """The model's reply to the conversation. Raises what `call_with_retry` raises."""
        iteration = self._state.iteration
        self._emit("llm_start", LlmStartData() if (turn := self._options.turn) is None else {"turn": turn})
        reply = await call_with_retry(
            lambda: self._effects.call_model(self._conversation, iteration, with_tools=with_tools),
            self._effects,
            self._options,
            self._emit_status,
            self._deadline,
        )
        self._state.count(reply)
        self._tell(reply)
        return reply

    def _tell(self, reply: ModelReply) -> None:
        if self._options.stream and reply.message.text and not reply.message.tool_calls:
            # Watchers saw it in parts; the event has it as a whole. Text with tool calls has no event (§9.3).
            self._emit("token", TokenData(token=reply.message.text))
        usage = usage_data(reply.usage)
        self._emit(
            "llm_complete", LlmCompleteData(usage=usage, finishReason=reply.finish_reason, costUsd=reply.cost_usd)
        )
        for warning in reply.warnings:
            self._emit_status(warning)

    def _emit_status(self, text: str) -> None:
        self._emit("status", StatusData(message=text))


async def call_with_retry(
    attempt_call: Callable[[], Awaitable[ModelReply]],
    effects: Effects,
    options: RunOptions,
    status: Callable[[str], None],
    deadline: float | None = None,
) -> ModelReply:
    """Call until it succeeds, for at most `max_llm_retries` attempts.

    A wait for a rate limit costs no attempt; all such waits together take at most `rate_limit_seconds`.
    Raises `LimitExceededError`, the error of `max_seconds`, when a wait would go on beyond `deadline`: at that time.
    Raises `ExecuteError` (without messages) when the call failed for good, `Cancelled` when the run is cancelled.
    """
    retries: Retries | None = None
    while True:
        try:
            return await attempt_call()
        except ModelError as error:
            retries = retries or Retries(effects, options)
            delay, text = retries.after(error)
            status(text)
            left = delay if deadline is None else max(0.0, deadline - effects.now())
            await effects.sleep(min(delay, left), "model retry")
            if effects.cancelled():
                raise Cancelled from None
            if delay > left:
                raise time_is_over(options, f"the last model call failed: {error.account}") from error


class Retries:
    """Decides what follows each failure of a model call."""

    def __init__(self, effects: Effects, options: RunOptions) -> None:
        self._effects = effects
        self._options = options
        self._attempt = 1
        self._limited = 0
        self._waited = 0.0

    def after(self, error: ModelError) -> tuple[float, str]:
        """Seconds to wait before the next attempt, and the text of the `status` event.

        Raises `ExecuteError` when there is no next attempt.
        """
        if not error.retryable:
            raise ExecuteError(f"LLM call failed: {error.account}", reason=error.kind) from error
        if error.kind == "rate_limit":
            return self._after_rate_limit(error)
        attempts = self._options.max_llm_retries
        if self._attempt >= attempts:
            retries = self._attempt - 1
            raise ExecuteError(
                f"LLM call failed after {retries} retries: {error.account}", reason=error.kind
            ) from error
        asked = error.retry_after
        delay = self._backoff(self._attempt) if asked is None else min(asked, MAX_WAIT_SECONDS)
        self._attempt += 1
        return delay, f"LLM call failed, retrying (attempt {self._attempt}/{attempts})..."

    def _after_rate_limit(self, error: ModelError) -> tuple[float, str]:
        self._limited += 1
        delay = self._backoff(self._limited) if error.retry_after is None else error.retry_after
        if self._waited + max(delay, MIN_COUNTED_SECONDS) > self._options.rate_limit_seconds:
            raise ExecuteError(
                f"LLM call failed after waiting {self._waited:.0f} s for a rate limit: {error.account}",
                reason=error.kind,
            ) from error
        self._waited += max(delay, MIN_COUNTED_SECONDS)
        return delay, f"Rate limit reached, waiting {delay:.0f} s..."

    def _backoff(self, failures: int) -> float:
        """Doubles from failure to failure, with jitter (§9.10)."""
        base = self._options.retry_base_seconds
        jitter = self._effects.random() * base / 2
        return min(base * 2.0 ** min(failures - 1, 60) + jitter, MAX_WAIT_SECONDS)
