"""Further checks of answers, by code of this process: what a Python type asks for and `outputs` can't say."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b
from threading import Lock
from typing import Any

from cachetools import LRUCache

from ..agent import Property

Check = Callable[[dict[str, Any]], list[str]]
"""Why an answer that fits the `outputs` is refused all the same; [] when it is not. Must not raise."""

REMEMBERED = 1000
"""So many checks are known at most: types may be made in functions."""

_checks: LRUCache[tuple[str, Hashable], Check] = LRUCache(REMEMBERED)
_lock = Lock()


def remember_check(outputs: Sequence[Property], of: Hashable, check: Check) -> None:
    """Check the answers of all runs with these outputs from now on, in this process, once for each `of`."""
    with _lock:
        _checks[_digest(outputs), of] = check


def check_faults(value: dict[str, Any], outputs: Sequence[Property]) -> list[str]:
    """Why no check for these outputs takes the answer; [] when one does, or when there is none.

    A run does not say which type its caller has: where several have the same outputs, one of them is enough.
    """
    with _lock:
        digest = _digest(outputs) if _checks else ""
        checks = [check for (known, _), check in _checks.items() if known == digest]
    faults: list[str] = []
    for check in reversed(checks):
        told = check(value)
        if not told:
            return []
        faults = faults or told
    return faults


def _digest(outputs: Sequence[Property]) -> str:
    dumped = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in outputs]
    return blake2b(json.dumps(dumped, sort_keys=True).encode(), digest_size=16).hexdigest()
