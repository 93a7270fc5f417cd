"""What processes take of the machine, and how long they wait for it: Linux tells both of each
thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProcessLoad:
    """Of all threads of one process, in seconds."""

    ran: float
    waited: float
    """While they could have run, and other threads had the cores; of those that there still are."""


def load_of(pid: int) -> ProcessLoad:
    """Return what the process has taken so far."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    waited = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # It has just ended.
            waited += int((thread / "schedstat").read_text().split()[1])
    return ProcessLoad(sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), waited / 1e9)


def child_named(pid: int, name: str) -> int:
    """Return the process that this one has started under that name. Raises StopIteration."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    children = [child for thread in threads for child in (thread / "children").read_text().split()]
    return next(
        int(child) for child in children if Path(f"/proc/{child}/comm").read_text().startswith(name)
    )


class LoadMeter:
    """Measures processes, by name, from when it is made."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = pids
        self._since = time.monotonic()
        self._before = {name: load_of(pid) for name, pid in pids.items()}

    def a_second(self) -> dict[str, ProcessLoad]:
        """Return what each has taken a second."""
        seconds = time.monotonic() - self._since
        taken = {}
        for name, pid in self._pids.items():
            now, before = load_of(pid), self._before[name]
            taken[name] = ProcessLoad(
                (now.ran - before.ran) / seconds, (now.waited - before.waited) / seconds
            )
        return taken

    def report(self) -> None:
        """Print it."""
        for name, taken in self.a_second().items():
            print(
                f"  {name:14} {taken.ran:4.2f} s of CPU a second, waits {taken.waited:5.2f} s a "
                "second for a core"
            )
