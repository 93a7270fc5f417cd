"""What a worker keeps of runs is bounded in bytes; the runs that were used last are those that
stay.
"""

from __future__ import annotations

from contextlib import suppress

from perdure.activities.run_cache import HEADS_SHARE, KnownRun, LinkKey, RunCache
from perdure.agents import Agent
from perdure.conversation import Conversation
from perdure.messages import Message
from perdure.protocol.run import RunInput

KIB = 1024
FIRST_LINK = "1"


def cache_for(conversations: int) -> RunCache:
    """A cache with so many bytes for conversations; what runs are takes a part of its own."""
    return RunCache(conversations * HEADS_SHARE // (HEADS_SHARE - 1))


def add(cache: RunCache, workflow_id: str, size: int, *, run_id: str = FIRST_LINK) -> None:
    """Add a run whose conversation takes somewhat more than `size` bytes of memory."""
    cache.add(
        workflow_id, KnownRun(run_id, RunInput(agent=Agent(), messages=[])), _conversation(size)
    )


def _conversation(size: int) -> Conversation:
    return Conversation.recorded([Message.user("x" * (size // 2))])


async def holds(cache: RunCache, workflow_id: str, size: int) -> bool:
    """Whether that conversation is at hand, which counts as using it."""
    hits = cache.hits
    with suppress(RuntimeError):  # It would have to be read from a history, by an activity.
        await cache.messages_of(LinkKey(workflow_id, FIRST_LINK), _conversation(size).ref())
    return cache.hits > hits


async def test_holds_what_fits() -> None:
    cache = cache_for(250 * KIB)
    add(cache, "a", 100 * KIB)
    add(cache, "b", 100 * KIB)
    assert "a" in cache
    assert "b" in cache
    assert 200 * KIB < cache.bytes < 250 * KIB
    assert await holds(cache, "a", 100 * KIB)


async def test_forgets_what_was_not_used_for_the_longest_time() -> None:
    cache = cache_for(250 * KIB)
    add(cache, "a", 100 * KIB)
    add(cache, "b", 100 * KIB)
    assert await holds(cache, "a", 100 * KIB)
    add(cache, "c", 100 * KIB)
    assert cache.bytes < 250 * KIB
    assert [await holds(cache, key, 100 * KIB) for key in "abc"] == [True, False, True]


async def test_what_is_too_large_displaces_nothing() -> None:
    cache = cache_for(250 * KIB)
    add(cache, "a", 100 * KIB)
    add(cache, "b", 300 * KIB)
    assert [await holds(cache, "a", 100 * KIB), await holds(cache, "b", 300 * KIB)] == [True, False]


async def test_a_conversation_that_has_grown_is_counted_anew() -> None:
    cache = cache_for(250 * KIB)
    add(cache, "a", 100 * KIB)
    add(cache, "b", 100 * KIB)
    add(cache, "a", 120 * KIB)
    assert 220 * KIB < cache.bytes < 250 * KIB
    add(cache, "a", 300 * KIB)
    assert 100 * KIB < cache.bytes < 120 * KIB
    assert await holds(cache, "b", 100 * KIB)


async def test_gives_up_a_run_that_has_ended_and_no_newer_one() -> None:
    cache = cache_for(250 * KIB)
    add(cache, "a", 100 * KIB)
    add(cache, "b", 100 * KIB, run_id="2")
    cache.forget("a", FIRST_LINK)
    cache.forget("b", FIRST_LINK)
    cache.forget("never seen", FIRST_LINK)
    assert [key in cache for key in "ab"] == [False, True]
    cache.forget("b", "2")
    assert cache.bytes == 0


async def test_without_room_nothing_is_held() -> None:
    cache = RunCache(0)
    add(cache, "a", 1)
    assert "a" not in cache
    assert cache.bytes == 0
