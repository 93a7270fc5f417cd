"""All decisions of a schedule, from one seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

Value = TypeVar("Value")


class Chance:
    """Decides what happens in a schedule. Equal seeds give equal schedules."""

    def __init__(self, seed: int, faults: float = 1.0) -> None:
        self._random = random.Random(seed)
        self.faults = faults
        """A factor of all probabilities of faults; 0 for none."""

    def happens(self, probability: float) -> bool:
        """Return whether a fault of that probability happens."""
        return self._random.random() < probability * self.faults

    def delay(self, what: str) -> float:
        """Return the seconds that something takes: mostly a few milliseconds, at times a second."""
        drawn = self._random.random()
        if drawn < 0.8:
            return 0.001 + 0.01 * drawn
        return 0.05 * drawn if drawn < 0.96 else 2.0 * (drawn - 0.5)

    def between(self, low: float, high: float) -> float:
        """Return a number from an interval."""
        return low + (high - low) * self._random.random()

    def number(self, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`, both included."""
        return self._random.randint(low, high)

    def choice(self, values: Sequence[Value]) -> Value:
        """Return one of the values."""
        return values[int(self._random.random() * len(values))]

    def happens_at_all(self, probability: float) -> bool:
        """Return whether something that is not a fault happens."""
        return self._random.random() < probability

    def moment(self) -> float:
        """Return the seconds after the start at which somebody does something: mostly early."""
        return float(self._random.random() ** 3 * 8.0)
