"""The end of a reply: one verdict for each, for any API, streamed or not (words: `errors.toml`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from ..arguments import parse_with_repair
from ..errors import ModelError, ModelErrorKind, ToolArgumentError
from ..messages import FILTERED, ProviderCall, ToolCall, Usage, end_word
from ..text import bounded_text, count_of, says_something
from .error_words import table
from .errors import error_from_http
from .tool_call_text import Call

ReplyEnd = Literal["whole", "cut_short", "paused"]
Failure = Literal["refused", "empty", "broken", "overflow"]
Ended = ReplyEnd | Failure
"""The verdict on a reply; a call whose reply is none of the first three has failed."""

NO_END = "incomplete"
"""The word for a stream without a final event, as after a proxy lost and closed it."""
NAMELESS = "Error: The call names no tool. Call the tool again, by its name"
_FULL = "model_context_window_exceeded"
_FAILURES: Mapping[Failure, tuple[ModelErrorKind, str]] = {
    "refused": ("refusal", "Model refused: {said}"),
    "empty": ("empty", "The model's answer is empty{details}"),
    "broken": ("invalid_response", "The reply ended in a fault{details}"),
    "overflow": (
        "context_length",
        "The conversation leaves no room for an answer in the model's context window",
    ),
}


@dataclass(frozen=True)
class Answer:
    """The model's answer in one response, in any wire format."""

    text: str
    calls: Sequence[Call]
    usage: Usage
    finish_reason: Any
    """The provider's own word for why the model stopped, or any other value in its place."""
    refusal: str = ""
    """The words that the API marks as a refusal."""
    error: Any = None
    """The error that the provider reports inside the answer."""
    by_default: Ended = "whole"
    """The verdict for an unknown word."""
    open_calls: Collection[int] = ()
    """The calls that the API does not mark as complete, so that an early end may have cut them
    off."""
    provider_calls: Sequence[ProviderCall] = ()
    """The tool calls that the provider executed itself."""
    original: list[Any] | None = None
    """The content of the response, if the text and the tool calls do not contain all of it."""

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls in the run's form; one without a name can't be executed, and the model is
        informed.
        """
        return [
            ToolCall(**call._asdict(), fault=None if call.name else NAMELESS) for call in self.calls
        ]


@cache
def ends() -> Mapping[str, Ended]:
    """Return the verdicts by the words that end an incomplete reply."""
    known: Mapping[Ended, Sequence[str]] = table()["ends"]
    return {word: ended for ended, words in known.items() for word in words} | dict.fromkeys(
        FILTERED, "refused"
    )


def verdict(answer: Answer) -> Ended:
    """Return the verdict on the reply. Never raises."""
    word = end_word(answer.finish_reason)
    ended = ends().get(word, answer.by_default)
    if answer.error:
        return "broken"
    if answer.refusal:
        return "refused"
    is_something = answer.calls or says_something(answer.text)
    if word in FILTERED and is_something:
        return "cut_short"
    if ended in ("refused", "broken") or is_something:
        return ended
    if ended == "paused" and answer.original:
        return ended
    return "overflow" if word == _FULL else "empty"


def require_reply(answer: Answer, provider: str) -> ReplyEnd:
    """Return the verdict on an answer that is a reply. Raises ModelError, with the call's usage,
    for any other.
    """
    ended = verdict(answer)
    if ended == "whole" or ended == "cut_short" or ended == "paused":
        return ended
    kind, text = _FAILURES[ended]
    said = answer.refusal or answer.text.strip() or f"it gives no reason{_details(answer)}"
    error = ModelError(
        bounded_text(text.format(said=said, details=_details(answer))), kind=kind, provider=provider
    )
    if answer.error:
        error = error_from_http(
            200, {}, {"error": answer.error}, provider=provider, fallback=error.message
        )
    error.usage = answer.usage.plausible()
    raise error


def made_calls(answer: Answer, ended: ReplyEnd) -> list[ToolCall]:
    """Return the calls of a reply; those that its early end may have cut off have a fault and are
    not executed.
    """
    if ended != "cut_short":
        return answer.tool_calls
    fault = (
        f"Error: This call was not made: the reply was cut off{_details(answer)} before the call "
        "was complete. Call the tool again, and write less in one call: do the work in several "
        "smaller calls"
    )
    return [
        call
        if call.fault or (index not in answer.open_calls and _closes_by_itself(call.arguments))
        else call.model_copy(update={"fault": fault})
        for index, call in enumerate(answer.tool_calls)
    ]


def _closes_by_itself(arguments: str) -> bool:
    """Return whether the arguments are a complete JSON object. An empty one may be the rest of
    another.
    """
    try:
        value, repaired = parse_with_repair(arguments)
    except ToolArgumentError:
        return False
    return bool(value) and repaired is None


def _details(answer: Answer) -> str:
    written = (
        f" at {count_of(answer.usage.output_tokens, 'token')}" if answer.usage.output_tokens else ""
    )
    reason = answer.finish_reason if isinstance(answer.finish_reason, str) else None
    return f"{written} (finish reason: {reason!r:.100})" if reason else written
