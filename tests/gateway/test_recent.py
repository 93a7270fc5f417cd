"""Answers that readers share for some seconds."""

from __future__ import annotations

import asyncio

import pytest

from perdure.gateway.recent import RecentAnswers, accepted_age


async def test_readers_that_ask_alike_share_an_answer_and_a_failure_is_not_kept() -> None:
    recent = RecentAnswers()
    asked: list[int] = []

    async def answer() -> int:
        asked.append(1)
        await asyncio.sleep(0)
        if len(asked) == 1:
            raise ValueError("not yet")
        return len(asked)

    with pytest.raises(ValueError, match="not yet"):
        await recent.get("a", 3, answer)
    assert await asyncio.gather(*(recent.get("a", 3, answer) for _ in range(50))) == [2] * 50
    assert await recent.get("b", 3, answer) == 3
    assert await recent.get("a", 0, answer) == 4


def test_an_age_is_read_from_a_header_and_bounded() -> None:
    assert accepted_age("max-age=3") == 3
    assert accepted_age("no-cache, max-age=999999") == 10
    assert accepted_age("no-store") == 0
