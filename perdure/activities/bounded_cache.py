"""A mapping bounded in bytes, which forgets what was not used for the longest time."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class BoundedCache(Generic[Key, Value]):
    """Holds values with the size that each was said to have."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        """The sizes of all values held."""
        self._held: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, key: Key) -> bool:
        return key in self._held

    def get(self, key: Key) -> Value | None:
        """The value, which counts as used now; None when it is not held."""
        if key not in self._held:
            return None
        self._held.move_to_end(key)
        return self._held[key][0]

    def put(self, key: Key, value: Value, size: int) -> None:
        """Hold a value of `size` bytes; one that is larger than the whole cache is not held, and displaces nothing."""
        self.pop(key)
        if size > self.max_bytes:
            return
        self._held[key] = value, size
        self.bytes += size
        while self.bytes > self.max_bytes:
            _, (_, forgotten) = self._held.popitem(last=False)
            self.bytes -= forgotten

    def pop(self, key: Key) -> Value | None:
        """Give the value up; None when it was not held."""
        value, size = self._held.pop(key, (None, 0))
        self.bytes -= size
        return value
