"""Sets up a process that does nothing but work: its allocator and its garbage collector."""

from __future__ import annotations

import asyncio
import ctypes
import gc

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_LARGE_BYTES = 1024 * 1024
"""Well above the 256 KB that asyncio allocates for each read from a socket: those would be mapped and unmapped."""
_GARBAGE_THRESHOLDS = (10_000, 10, 10)
"""The youngest objects are looked at when there are so many, usually 700."""
GARBAGE_SECONDS = 20.0
"""How often all of them are: a run that has ended is one large cycle, and would else stay for many others."""


def tune_process() -> None:
    """Make this process smaller and faster; for processes like `perdure worker`, once their modules are imported.

    To be called in its event loop. glibc's allocator keeps one arena and gives back what is freed at its end
    (elsewhere nothing happens). The garbage collector leaves what is there now alone, looks at the youngest objects
    less often, and every 20 seconds at all of them, which takes a tenth of a second in a busy worker.
    """
    _keep_one_arena()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
    _collect_later(asyncio.get_running_loop())


def _collect_later(loop: asyncio.AbstractEventLoop) -> None:
    def collect() -> None:
        gc.collect()
        _collect_later(loop)

    loop.call_later(GARBAGE_SECONDS, collect)


def _keep_one_arena() -> None:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_ARENA_MAX, 1)
    mallopt(_M_TRIM_THRESHOLD, _LARGE_BYTES)
    mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
