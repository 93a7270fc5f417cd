"""The text of a run's final answer, as it comes (§9.3)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress

from ..agent import Agent
from ..events import RunEvent
from .tokens import CancellationToken

logger = logging.getLogger("perdure")


def held_back(agent: Agent, stream_after: int | None, *, is_checked: bool) -> int | None:
    """How many characters of a text are held back until it is known for the answer; None for all of them.

    Whoever does not mind text that precedes tool calls says so by `stream_after`. Raises ValueError for a negative one.
    """
    if stream_after is not None and stream_after < 0:
        raise ValueError(f"stream_after={stream_after}: expected a number of characters, from 0")
    if is_checked or agent.outputs:
        return None
    return stream_after if agent.tools else 0


class AnswerText:
    """Picks the text of the final answer out of a run's events.

    What was given can't be taken back. Where it turns out not to belong to the answer, because the model was called
    once more, the answer follows after an empty line, and the log says so.
    """

    def __init__(self, held_back: int | None) -> None:
        self._held_back = held_back
        self._iteration = 0
        self._text = ""
        self._given = ""

    def more(self, event: RunEvent) -> str:
        """What is to be given after this event; "" for nothing."""
        if event.type == "done":
            return self._catch_up(event.data["response"], is_whole=True)
        if event.type == "text_reset" or event.iteration != self._iteration:
            self._iteration, self._text = event.iteration, ""
        if event.type != "token" or self._held_back is None:
            return ""
        self._text += event.data["token"]
        return self._catch_up(self._text) if len(self._text) > self._held_back else ""

    def _catch_up(self, text: str, *, is_whole: bool = False) -> str:
        given, self._given = self._given, text
        if text.startswith(given):
            return text[len(given) :]
        if given.startswith(text) and not is_whole:
            self._given = given
            return ""
        logger.warning("the %d characters that were streamed do not belong to the answer, which follows", len(given))
        return f"\n\n{text}"


Give = Callable[[str], None]


async def streamed(
    call: Callable[[CancellationToken, Give], Awaitable[object]], cancel: CancellationToken | None
) -> AsyncGenerator[str, None]:
    """What `call` gives to the function that it is called with, while it runs as a task; then raises what it raises.

    The token that it gets is cancelled with `cancel`, and when nobody reads on.
    """
    texts: asyncio.Queue[str | None] = asyncio.Queue()
    token = CancellationToken()

    async def work() -> None:
        try:
            await call(token, texts.put_nowait)
        finally:
            texts.put_nowait(None)

    if cancel:
        cancel.listen(token.cancel)
    task = asyncio.create_task(work())
    try:
        while (text := await texts.get()) is not None:
            yield text
        await task
    finally:
        if cancel:
            cancel.forget(token.cancel)
        token.cancel()
        await asyncio.wait([task])
        with suppress(asyncio.CancelledError):
            task.exception()  # Whoever has left does not want to know.
