"""The retries of a model call (§9.10)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ..errors import ExecuteError, ModelError
from ..messages import ModelReply
from ..options import RunOptions
from .effects import Effects

MAX_WAIT_SECONDS = 60.0


async def call_with_retry(
    attempt_call: Callable[[], Awaitable[ModelReply]],
    effects: Effects,
    options: RunOptions,
    status: Callable[[str], None],
) -> ModelReply:
    """Call until it succeeds, for at most `max_llm_retries` attempts.

    Waits for a rate limit cost no attempt, but all of them together at most `rate_limit_seconds`.
    Raises `ExecuteError` (without messages) when it is over, `Cancelled` when the run is.
    """
    attempt, limited, waited = 1, 0, 0.0
    while True:
        try:
            return await attempt_call()
        except ModelError as error:
            if not error.retryable:
                raise ExecuteError(f"LLM call failed: {error}", reason=error.kind) from error
            if error.kind == "rate_limit":
                limited += 1
                delay = _delay(error, limited, effects, options)
                waited += delay
                if waited > options.rate_limit_seconds:
                    raise ExecuteError(
                        f"LLM call failed after waiting {waited - delay:.0f} s for a rate limit: {error}",
                        reason=error.kind,
                    ) from error
                status(f"Rate limit reached, waiting {delay:.0f} s...")
            else:
                if attempt >= options.max_llm_retries:
                    raise ExecuteError(f"LLM call failed after {attempt} retries: {error}", reason=error.kind) from error
                delay = _delay(error, attempt, effects, options)
                attempt += 1
                status(f"LLM call failed, retrying (attempt {attempt}/{options.max_llm_retries})...")
            await effects.sleep(delay, "model retry")


def _delay(error: ModelError, failures: int, effects: Effects, options: RunOptions) -> float:
    """Seconds to wait after that many failures: what the provider asked for, else doubling with jitter."""
    if error.retry_after is not None:
        return error.retry_after if error.kind == "rate_limit" else min(error.retry_after, MAX_WAIT_SECONDS)
    base = options.retry_base_seconds
    return min(base * 2 ** (failures - 1) + effects.random() * base / 2, MAX_WAIT_SECONDS)
