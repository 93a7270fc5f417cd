"""No text makes parsing slower than linear."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest

from perdure.agents import Agent
from perdure.prompty.parse import parse

KB = 1000
UNITS: tuple[str, ...] = (
    " ",
    "\t",
    "\u2028",
    "\n",
    "\n ",
    "#",
    " #",
    ":",
    "user",
    "user:",
    "user:\n",
    "user[",
    "user[a=",
    "[a=a",
    "a=a,",
)
UNITS += (
    "a=a ",
    'a="',
    '"',
    "=",
    ",",
    "a = b ,  ",
    'a="x"',
    'a="x",',
    "user[a=b]:\n",
    "\\",
    "\r",
    "]",
    "__PROMPTY_THREAD_",
)
PREFIXES = ("", 'user[a="', "user[a=a,", "# ")


def seconds(run: Callable[[str], object], text: str) -> float:
    """Seconds of the processor that one run takes in this thread, without the garbage
    collector's.
    """
    gc.disable()
    started = time.thread_time()
    run(text)
    ended = time.thread_time()
    gc.enable()
    return ended - started


def assert_linear(run: Callable[[str], object], make: Callable[[int], str]) -> None:
    """100 KB take under a second and, where that can be measured, about 4 times as long as 25 KB
    (squared: 16).
    """
    long = seconds(run, make(100 * KB))
    assert long < 1
    if long > 0.05:
        long = min(long, seconds(run, make(100 * KB)))
        short = min(seconds(run, make(25 * KB)) for _ in range(3))
        assert long < 8 * short


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("prefix", PREFIXES)
def test_parse(prefix: str, unit: str) -> None:
    agent = Agent()
    assert_linear(lambda text: parse(agent, text), lambda size: prefix + unit * (size // len(unit)))
