"""Parses a run's answer while its model is writing it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, cast

from pydantic_core import from_json

from ..declared_tools import Property
from ..events import RunEvent
from ..protocol.outcome import RunResult
from ..providers.structured import read_value
from ..schema import ANSWER, is_bare

LEAST_GROWTH = 1.01
"""The growth after which an answer is parsed again, so that the total time stays proportional to
its length."""
Outputs = Sequence[Property] | None


async def partial_outputs(
    events: AsyncIterator[RunEvent],
    result: Callable[[], Awaitable[RunResult[Any]]],
    outputs: Callable[[], Outputs],
) -> AsyncIterator[Any]:
    """Yield a run's answer so far, each time that it changes, then its output; `outputs` are its
    agent's.

    Raises the errors of the functions that read the run's events and its result.
    """
    last, read = None, 0
    async with aclosing(cast("AsyncGenerator[RunEvent, None]", events)):
        async for text in _texts(events):
            if read <= len(text) < read * LEAST_GROWTH:
                continue  # A long answer is not parsed again for each word.
            read = len(text)
            if (found := partial_value(text, outputs())) not in (None, last):
                last = found
                yield found
    yield (await result()).output


async def _texts(events: AsyncIterator[RunEvent]) -> AsyncIterator[str]:
    """Yield the model's text so far, each time that it grows."""
    text, iteration = "", 0
    async for event in events:
        if event.type == "text_reset" or event.iteration != iteration:
            text, iteration = "", event.iteration
        if event.type == "token":
            text += event.data["token"]
            yield text


def partial_value(text: str, outputs: Outputs) -> Any:
    """Return the value of the beginning of an answer; None if it has no value yet, or is not
    JSON.
    """
    if not outputs:
        return text
    try:
        value = _without_begun_entry(from_json(text, allow_partial="trailing-strings"))
    except ValueError:
        return None
    is_wrapped = isinstance(value, dict) and ANSWER in value
    if is_bare(outputs) and isinstance(value, dict) and not is_wrapped:
        return None
    return read_value(value, outputs)


def _without_begun_entry(value: Any) -> Any:
    """Return the value without a dict entry at its very end that has no value yet."""
    if isinstance(value, list) and value:
        is_begun = isinstance(value[-1], dict) and value[-1].keys() <= {"key"}
        return value[:-1] if is_begun else [*value[:-1], _without_begun_entry(value[-1])]
    if isinstance(value, dict) and value:
        last = next(reversed(value))
        return {**value, last: _without_begun_entry(value[last])}
    return value
