"""A breaker: repeated refusals open it, calls wait together, one probes; a flaky call alone hurts
nobody.
"""

from __future__ import annotations

import asyncio

import pytest

from perdure.breakers import Breaker, BreakerIsOpen, ServerRefusal


class Down(Exception):
    pass


def refusal_in(error: Exception) -> ServerRefusal | None:
    return (
        ServerRefusal("server", "it is down", retry_after=0.0) if isinstance(error, Down) else None
    )


async def call(breaker: Breaker, run: str, *, fails: bool, patience: float = 0.0) -> None:
    async with breaker.call(run, patience, refusal_in):
        if fails:
            raise Down


async def refuse(breaker: Breaker, runs: list[str]) -> None:
    for run in runs:
        with pytest.raises(Down):
            await call(breaker, run, fails=True)


async def test_calls_wait_together_and_one_probes() -> None:
    breaker = Breaker("x", _seconds=0.1)
    await refuse(breaker, ["a", "b", "c", "a", "b"])
    assert breaker.state == "open"
    with pytest.raises(BreakerIsOpen, match="it is down"):
        await call(breaker, "d", fails=False)
    told: list[str] = []

    async def on_wait(refusal: ServerRefusal, until: float) -> None:
        told.append(refusal.text)

    begun: list[float] = []

    async def wait(run: str) -> None:
        async with breaker.call(run, 20.0, refusal_in, on_wait) as waited:
            begun.append(waited)
            await asyncio.sleep(0.3)

    await asyncio.gather(*(wait(f"r{number}") for number in range(10)))
    assert (breaker.state, len(told)) == ("closed", 10)
    first, *rest = sorted(begun)
    assert first + 0.25 < rest[0], "the others begin when the probe has ended"


async def test_a_probe_that_is_cancelled_leaves_it_to_the_next_call() -> None:
    breaker = Breaker("x", _seconds=0.0)
    await refuse(breaker, ["a", "b", "c", "d", "e"])
    probe = asyncio.create_task(_hang(breaker))
    await asyncio.sleep(0.01)
    assert breaker.state == "probing"
    probe.cancel()
    await asyncio.wait([probe])
    await call(breaker, "f", fails=False, patience=5.0)
    assert breaker.state == "closed"


async def _hang(breaker: Breaker) -> None:
    async with breaker.call("p", 5.0, refusal_in):
        await asyncio.sleep(60)
