"""Breakers: after repeated refusals of one server, all calls of a process wait together, and one
probes.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from .redaction import get_logger

REFUSALS = 5
"""The number of refusals in a row, without an answer between them, that opens a breaker."""
RUNS = 3
"""The number of runs that must have met them: a single run paces its own retries."""
WINDOW_SECONDS = 60.0
"""Older refusals do not count."""
FIRST_SECONDS, LONGEST_SECONDS = 2.0, 60.0
"""The time until a call probes; it doubles with each refused probe."""
LOOK_SECONDS = 0.25
"""The interval at which a waiting call looks again."""
SPREAD_SECONDS = 1.0
"""Calls that have waited begin within this time, not all at once."""
MAX_BREAKERS = 1_000

_log = get_logger("perdure.breakers")


class BreakerIsOpen(Exception):
    """The breaker stays open for longer than the call can wait; the text is that of the last
    refusal.
    """

    def __init__(self, text: str, *, kind: str, seconds: float) -> None:
        super().__init__(text)
        self.kind = kind
        self.seconds = seconds
        """The time until a call probes."""


@dataclass
class ServerRefusal:
    """A sign that a server takes no calls now."""

    kind: str
    text: str
    retry_after: float | None = None


Waiting = Callable[[ServerRefusal, float], Awaitable[None]]
"""Called with the reason why a call waits, and the end of the wait, in seconds since the epoch."""


@dataclass
class Breaker:
    """One connection: the calls on it, and those that wait for it."""

    name: str
    """The name for people."""
    state: Literal["closed", "open", "probing"] = "closed"
    last: ServerRefusal | None = None
    waiting: int = 0
    """The number of waiting calls."""
    _until: float = 0.0
    _seconds: float = FIRST_SECONDS
    _refusals: list[tuple[float, str]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @asynccontextmanager
    async def call(
        self,
        run: str,
        patience: float,
        refusal_in: Callable[[Exception], ServerRefusal | None],
        on_wait: Waiting | None = None,
    ) -> AsyncIterator[float]:
        """Let the block call the server, after a wait of at most `patience` seconds. Yields the
        seconds that it took.

        `refusal_in` recognises the block's exceptions that are refusals. Raises `BreakerIsOpen` if
        the wait is too long.
        """
        begun = time.monotonic()
        is_probe = await self._wait_for_turn(begun + patience, on_wait)
        try:
            yield time.monotonic() - begun
        except Exception as error:
            self._end(run, refusal_in(error), is_probe=is_probe)
            raise
        except BaseException:
            self._give_up(is_probe=is_probe)
            raise
        else:
            self._end(run, None, is_probe=is_probe)

    async def _wait_for_turn(self, deadline: float, on_wait: Waiting | None) -> bool:
        """Wait until the call may begin, and return whether it is the probe. Raises
        `BreakerIsOpen`.
        """
        turn = self._turn()
        if turn is not None:
            return turn
        assert self.last is not None
        self.waiting += 1
        try:
            if on_wait is not None:
                await on_wait(self.last, time.time() + max(0.0, self._until - time.monotonic()))
            while (turn := self._turn()) is None:
                if time.monotonic() >= deadline:
                    seconds = max(0.0, self._until - time.monotonic())
                    raise BreakerIsOpen(self.last.text, kind=self.last.kind, seconds=seconds)
                await asyncio.sleep(LOOK_SECONDS)
            if not turn:
                await asyncio.sleep(random.uniform(0.0, SPREAD_SECONDS))
        finally:
            self.waiting -= 1
        return turn

    def _turn(self) -> bool | None:
        """Return whether a call that begins now is the probe; None while it must wait."""
        with self._lock:
            if self.state == "closed":
                return False
            if self.state == "open" and time.monotonic() >= self._until:
                self.state = "probing"
                return True
            return None

    def _end(self, run: str, refusal: ServerRefusal | None, *, is_probe: bool) -> None:
        with self._lock:
            if refusal is not None:
                self._count(run, refusal, is_probe=is_probe)
            elif is_probe or self.state == "closed":
                self._close()

    def _close(self) -> None:
        if self.state != "closed":
            _log.warning(
                "%s answers again: its calls resume (%d have waited)", self.name, self.waiting
            )
        self.state, self._seconds = "closed", FIRST_SECONDS
        self._refusals.clear()

    def _count(self, run: str, refusal: ServerRefusal, *, is_probe: bool) -> None:
        self.last, now = refusal, time.monotonic()
        if is_probe:
            self._open(now, min(2 * self._seconds, LONGEST_SECONDS))
            return
        self._refusals = [each for each in self._refusals if each[0] > now - WINDOW_SECONDS] + [
            (now, run)
        ]
        is_repeated = (
            len(self._refusals) >= REFUSALS and len({each for _, each in self._refusals}) >= RUNS
        )
        if self.state == "closed" and is_repeated:
            _log.warning(
                "Calls of %s wait because it refuses them (%s); one probes from time to time",
                self.name,
                refusal.text,
            )
            self._open(now, self._seconds)

    def _open(self, now: float, seconds: float) -> None:
        assert self.last is not None
        self.state, self._seconds = "open", seconds
        self._until = now + min(max(seconds, self.last.retry_after or 0.0), LONGEST_SECONDS)

    def _give_up(self, *, is_probe: bool) -> None:
        """Record that the probe was cancelled: the next call probes."""
        with self._lock:
            if is_probe:
                self.state = "open"


class Breakers:
    """The breakers of a process, by the key of the connection; those unused for long are
    dropped.
    """

    def __init__(self) -> None:
        self._breakers: OrderedDict[tuple[str, ...], Breaker] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, key: tuple[str, ...], name: str) -> Breaker:
        """Return the breaker of that connection."""
        with self._lock:
            breaker = self._breakers.setdefault(key, Breaker(name))
            self._breakers.move_to_end(key)
            if len(self._breakers) > MAX_BREAKERS:
                self._breakers.popitem(last=False)
            return breaker

    def __iter__(self) -> Iterator[Breaker]:
        with self._lock:
            return iter(list(self._breakers.values()))


breakers = Breakers()
"""The breakers of this process, shared by all runs of its workers."""
