"""Shares recent answers between equal requests that accept their age
(`Cache-Control: max-age=N`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from cachetools import TTLCache

MAX_SECONDS = 10.0
"""An older answer is never given again."""
MAX_ANSWERS = 10_000


def accepted_age(cache_control: str) -> float:
    """Return the age in seconds of the answers that a request accepts; 0 for none but its own."""
    found = re.search(r"\bmax-age=(\d{1,6})\b", cache_control)
    return min(float(found[1]), MAX_SECONDS) if found else 0.0


class RecentAnswers:
    """Recent answers by their request; equal requests at the same time share one."""

    def __init__(self) -> None:
        self._known: TTLCache[Hashable, tuple[float, asyncio.Task[Any]]] = TTLCache(
            MAX_ANSWERS, MAX_SECONDS
        )

    async def get(
        self, asked: Hashable, max_age: float, answer: Callable[[], Awaitable[Any]]
    ) -> Any:
        """Return an answer that was begun at most `max_age` seconds ago, or a new one. Raises as
        `answer` does.
        """
        now = asyncio.get_running_loop().time()
        began, task = self._known.get(asked, (0.0, None))
        if task is None or now - began > max_age or (task.done() and task.exception()):
            task = asyncio.ensure_future(answer())
            self._known[asked] = (now, task)
        return await asyncio.shield(task)
