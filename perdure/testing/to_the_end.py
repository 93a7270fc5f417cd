"""A run in this process as one call, which waits for its end."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

from typing_extensions import TypeVar

from ..client.blocking import wait_for_result
from ..protocol.outcome import RunResult
from .in_process import InProcessRun

P = ParamSpec("P")
T = TypeVar("T", default=Any)


def _run_to_end(make: Callable[P, InProcessRun[T]]) -> Callable[P, RunResult[T]]:
    @functools.wraps(make, assigned=(), updated=())
    def run_in_process(*arguments: P.args, **named: P.kwargs) -> RunResult[T]:
        """Run an agent in this process and return its result; the arguments are those of `InProcessRun`.

        May be called in a thread whose event loop is running. Raises what `InProcessRun` and its `run` raise.
        """
        return wait_for_result(make(*arguments, **named).run())

    return run_in_process


run_in_process = _run_to_end(InProcessRun)
"""Run an agent in this process and return its result; the arguments are those of `InProcessRun`."""
