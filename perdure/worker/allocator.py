"""Keeps a worker's process small: what it frees goes back to the system."""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_LARGE_BYTES = 64 * 1024


def give_memory_back() -> None:
    """Tell glibc's allocator to keep little of what is freed. Without glibc, nothing happens.

    It is for processes that do nothing but work, like `perdure worker`: their payloads come and go by the
    hundred kilobytes, on several threads, and the allocator would keep room for all of them. About 5 MB less.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_ARENA_MAX, 1)
    mallopt(_M_TRIM_THRESHOLD, 2 * _LARGE_BYTES)
    mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
