"""The step of an iteration that calls the model, and its retries (§9.10)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..errors import ExecuteError, LimitExceededError, ModelError
from ..event_data import (
    LlmCompleteData,
    LlmStartData,
    ModelFallbackData,
    ProviderToolData,
    ThinkingData,
    TokenData,
)
from ..messages import Message, ModelReply, Usage
from ..options import RunOptions
from ..text import says_something
from .effects import Calling, Cancelled, Effects
from .failed_calls import after
from .limits import deadline, time_is_over
from .overflow import CUT_AS_FAR, CUTS
from .state import RunPart, usage_data

NO_NATIVE_TOOLS = "The provider refuses tools, so the prompt describes them from now on"
NO_TOOLS_ADVICE = (
    ". With tool_protocol='auto' or 'json', the prompt describes the tools to such a model"
)
DRAFT_STANDS = "The model's final response is empty: its earlier text is the answer"
NOTHING_SAID = "The model's answer is empty"
CUT_SHORT = "The reply was cut short (finish reason: {})"
UNCOUNTED = "The provider counts no tokens: max_total_tokens uses an estimate"
CHARS_PER_TOKEN = 4
"""Roughly."""
MAX_WAIT_SECONDS = 60.0
MIN_COUNTED_SECONDS = 1.0
"""The least time that a wait for a rate limit counts, so that a provider that always answers "retry
at once" can't keep a run going for ever."""


@dataclass
class ModelCalls(RunPart[Effects]):
    """Calls the model for one run: announces the call, tries until it succeeds, and counts and
    reports its usage.
    """

    make_room: Callable[[ModelError | None], Awaitable[bool]]
    """Cuts the conversation, for the model that refused it if any; returns whether that may
    help."""
    is_seen: bool
    """Whether readers may see the model's text at once; if not, a guardrail judges it first."""
    _too_long: list[tuple[int, ModelError]] = field(default_factory=list, init=False)
    """The models that found the current conversation too long."""
    _offered: Mapping[str, str | None] | None = field(default=None, init=False)
    """The tools offered to the model now; None for all."""

    async def make(
        self, *, with_tools: bool, offered: Mapping[str, str | None] | None = None
    ) -> ModelReply:
        """Return the model's reply to the conversation, with these tools offered, or all.

        Raises the errors of `_call_with_retry`.
        """
        self._offered = offered
        data = LlmStartData() if (turn := self.options.turn) is None else LlmStartData(turn=turn)
        self.emit("llm_start", data if offered is None else {**data, "tools": list(offered)})
        reply = await self._call_or_hold(with_tools)
        self.state.count(reply)
        self._count_uncounted(reply)
        is_act = self.state.prompted and not self._is_answer(with_tools)
        if self.state.prompted and not is_act and not reply.message.tool_calls:
            self.state.answers += 1
        self._emit_reply(reply, is_act)
        return reply

    async def _call_or_hold(self, with_tools: bool) -> ModelReply:
        """Reply of a call that is repeated each time a person resumes the run, which is held for
        the call's failure.
        """
        while True:
            try:
                return await self._call_shortened(with_tools)
            except ExecuteError as error:
                reason = after(error.reason).held_for
                if reason is None or not self.effects.is_held_for(reason):
                    raise
                await self.effects.hold(error, reason)
                self.state.fallback = 0
                if reason == "context":
                    await self.make_room(None)  # The options may have changed.
            except LimitExceededError as limit:
                if self.options.on_limit != "raise" or not self.effects.is_held_for("budget"):
                    raise
                await self.effects.hold(limit, "budget")
                self.state.fallback = 0

    async def _call_shortened(self, with_tools: bool) -> ModelReply:
        """Reply to the conversation, or to a shorter one after cuts: all models have failed, and
        some found it too long.

        The first one that found it too long is asked again.
        """
        for _ in range(CUTS):
            self._too_long.clear()
            try:
                return await self._call_until_answered(with_tools)
            except ExecuteError as error:
                if not self._too_long:
                    raise
                last = error
            self.state.fallback, refusal = self._too_long[0]
            if not await self.make_room(refusal):
                break
        raise ExecuteError(
            f"{last}{CUT_AS_FAR.format(self.options.keep_messages)}", reason="context_length"
        ) from refusal

    async def _call_until_answered(self, with_tools: bool) -> ModelReply:
        """Reply of the run's current model, or of the first one after it that does not fail for
        good.

        That one becomes the current model: it knows its own thinking, and the other may well fail
        again.
        """
        others = [each for each in range(len(self.models)) if each != self.state.fallback]
        failures: list[str] = []
        while True:
            try:
                return await self._call_with_retry(with_tools, has_others=bool(others))
            except ExecuteError as error:
                if error.reason == "context_length" and isinstance(error.__cause__, ModelError):
                    self._too_long.append((self.state.fallback, error.__cause__))
                if not others or not after(error.reason).passed_on:
                    raise _combined_error(error, failures) from error.__cause__
                failures.append(f"{self.model}: {error}")
                self._pass_on(others.pop(0), error)
            if self.effects.cancelled():
                raise Cancelled

    async def _call_with_retry(self, with_tools: bool, *, has_others: bool) -> ModelReply:
        """Call one model until it succeeds, with at most `max_llm_retries` attempts.

        A wait for a rate limit, or one of more than a minute that the provider asks for, costs no
        attempt; all such waits together take at most `rate_limit_seconds`. If there are other
        models (`has_others`), it counts as a failure like any other. Raises `LimitExceededError`,
        the error of `max_seconds`, when a wait would go on beyond that: at that time. Raises
        `ExecuteError` (without messages) when the call failed for good, `Cancelled` when the run is
        cancelled.
        """
        retries = Retries(self.effects, self.options, has_others)
        while True:
            try:
                return await self._attempt(with_tools)
            except ModelError as error:
                delay, text = retries.next_wait(error)
                self.emit_status(text, error.account)
                until = deadline(self.options, self.state)
                left = delay if until is None else max(0.0, until - self.effects.now())
                await self.effects.sleep(min(delay, left), "model retry")
                if self.effects.cancelled():
                    raise Cancelled from None
                if delay > left:
                    why = f"the last model call failed: {error.account}"
                    raise time_is_over(self.options, why) from error

    def _pass_on(self, other: int, error: ExecuteError) -> None:
        failed, self.state.fallback = self.state.fallback, other
        names, kind = self.models, error.reason or error.kind
        data = ModelFallbackData(
            failed=names[failed], kind=kind, message=str(error), model=names[other]
        )
        self.emit("model_fallback", data)

    async def _attempt(self, with_tools: bool) -> ModelReply:
        """Make one attempt. One that the provider refuses for its tools does not count, if the
        prompt can describe them instead.
        """
        try:
            return await self._call(with_tools)
        except ModelError as error:
            if (
                self.options.tool_protocol != "auto"
                or self.state.prompted
                or error.kind != "no_tools"
            ):
                raise
            self.state.prompted = True
            self.emit_status(f"{NO_NATIVE_TOOLS}: {error.account}")
            if self.effects.cancelled():
                raise Cancelled from None
            return await self._call(with_tools)

    async def _call(self, with_tools: bool) -> ModelReply:
        while True:
            calling = self._next_call(with_tools)
            try:
                return self._require_answer(
                    await self.effects.call_model(self.conversation, calling), calling
                )
            except ModelError as error:
                used = ModelReply(
                    message=Message.assistant(),
                    usage=error.usage or Usage(),
                    cost_usd=error.cost_usd,
                )
                if error.kind == "empty" and self._may_be_empty(calling):
                    return self._require_answer(used, calling)
                if error.usage is not None:
                    self.state.count_failed(used)
                raise

    def _require_answer(self, reply: ModelReply, calling: Calling) -> ModelReply:
        """Return the reply, if it is one; the model's previous text replaces an empty final answer.

        Raises ModelError of kind `empty`.
        """
        if (
            reply.message.metadata.get("tool_calls")
            or says_something(reply.message.text)
            or reply.ended == "paused"
        ):
            return reply
        if not self._may_be_empty(calling):
            provider = self.model.partition("/")[0]
            error = ModelError(NOTHING_SAID, kind="empty", provider=provider)
            error.usage, error.cost_usd = reply.usage, reply.cost_usd
            raise error
        if calling.prompted == "act":
            return reply
        warnings = [*reply.warnings, DRAFT_STANDS]
        return reply.model_copy(
            update={"message": Message.assistant(self.state.draft), "warnings": warnings}
        )

    def _may_be_empty(self, calling: Calling) -> bool:
        """Return whether an empty reply is an answer: no tool is needed, or the model's previous
        text is the answer.
        """
        return calling.prompted == "act" or (
            self.state.answering and bool(self.state.draft.strip())
        )

    def _count_uncounted(self, reply: ModelReply) -> None:
        """Count an estimate towards `max_total_tokens` if the provider reports no usage; report
        that once.
        """
        if self.options.max_total_tokens is None or reply.usage.total_tokens:
            return
        if not self.state.untold_tokens:
            self.emit_status(UNCOUNTED)
        chars = sum(self.conversation.sizes) + len(reply.message.text)
        self.state.untold_tokens += chars // CHARS_PER_TOKEN + 1

    def _next_call(self, with_tools: bool) -> Calling:
        calling = Calling(
            self.state.iteration, with_tools, fallback=self.state.fallback, tools=self._offered
        )
        if not self.state.prompted:
            return calling
        phase: Literal["act", "answer"] = "answer" if self._is_answer(with_tools) else "act"
        return calling._replace(prompted=phase, step=self.state.steps + 1)

    def _is_answer(self, with_tools: bool) -> bool:
        return self.state.answering or not with_tools

    def _emit_reply(self, reply: ModelReply, is_act: bool) -> None:
        # Watchers saw both in parts, or only the beginning; the events have them complete.
        is_shown = self.options.stream and self.is_seen
        if is_shown and reply.thinking:
            self.emit("thinking", ThinkingData(token=reply.thinking))
        text = reply.message.text if is_shown and not is_act else ""
        if text and not reply.message.tool_calls:  # Text with tool calls has no event (§9.3).
            self.emit("token", TokenData(token=text))
        data = LlmCompleteData(
            usage=usage_data(reply.usage), finishReason=reply.finish_reason, costUsd=reply.cost_usd
        )
        if len(self.models) > 1:
            data["model"] = self.model
        if reply.ended != "whole":
            data["ended"] = reply.ended
        if reply.lost_attempts:
            data["lostAttempts"] = reply.lost_attempts
        if text and reply.message.tool_calls:
            data["text"] = text
        self.emit("llm_complete", data)
        for call in reply.provider_calls:
            self.emit(
                "provider_tool",
                ProviderToolData(
                    name=call.name, id=call.id, status=call.status, details=call.details
                ),
            )
        cut_short = [CUT_SHORT.format(reply.finish_reason)] if reply.ended == "cut_short" else []
        for warning in [*cut_short, *reply.warnings]:
            self.emit_status(warning)


def _combined_error(error: ExecuteError, failures: Sequence[str]) -> ExecuteError:
    """Return the last model's error, extended by the failures of the models before it."""
    if not failures:
        return error
    return ExecuteError(
        f"{error}. The models before it: {'; '.join(failures)}", reason=error.reason
    )


@dataclass
class Retries:
    """Decides the reaction to each failure of a model call."""

    effects: Effects
    options: RunOptions
    has_others: bool = False
    attempt: int = 1
    limited: int = 0
    waited: float = 0.0

    def next_wait(self, error: ModelError) -> tuple[float, str]:
        """Seconds to wait before the next attempt, and the text of the `status` event.

        Raises `ExecuteError` when there is no next attempt.
        """
        asked_again = after(error.kind).asked_again
        if asked_again in ("never", "shortened"):
            is_native = self.options.tool_protocol == "native"
            advice = NO_TOOLS_ADVICE if error.kind == "no_tools" and is_native else ""
            raise ExecuteError(
                f"LLM call failed: {error.account}{advice}", reason=error.kind
            ) from error
        asked = error.retry_after
        is_long = asked is not None and asked > MAX_WAIT_SECONDS
        if not self.has_others and (
            asked_again == "waits" or (is_long and self._may_wait(asked or 0.0))
        ):
            return self._free_wait(error)
        attempts = self.options.max_llm_retries
        if self.attempt >= attempts or (self.has_others and is_long):
            retries = self.attempt - 1
            raise ExecuteError(
                f"LLM call failed after {retries} retries: {error.account}", reason=error.kind
            ) from error
        delay = self._backoff(self.attempt) if asked is None else min(asked, MAX_WAIT_SECONDS)
        self.attempt += 1
        return delay, f"LLM call failed, retrying (attempt {self.attempt}/{attempts})..."

    def _free_wait(self, error: ModelError) -> tuple[float, str]:
        """Return the wait for a rate limit, or until the server's given time, which costs no
        attempt.
        """
        self.limited += 1
        delay = self._backoff(self.limited) if error.retry_after is None else error.retry_after
        if not self._may_wait(delay):
            raise ExecuteError(
                f"LLM call failed after waiting {self.waited:.0f} s for a rate limit: "
                f"{error.account}",
                reason=error.kind,
            ) from error
        self.waited += max(delay, MIN_COUNTED_SECONDS)
        why = "Rate limit reached" if error.kind == "rate_limit" else "The provider asks for it"
        return delay, f"{why}, waiting {delay:.0f} s..."

    def _may_wait(self, delay: float) -> bool:
        return self.waited + max(delay, MIN_COUNTED_SECONDS) <= self.options.rate_limit_seconds

    def _backoff(self, failures: int) -> float:
        """Return seconds that double from failure to failure, with jitter (§9.10)."""
        base = self.options.retry_base_seconds
        jitter = self.effects.random() * base / 2
        return min(base * 2.0 ** min(failures - 1, 60) + jitter, MAX_WAIT_SECONDS)
