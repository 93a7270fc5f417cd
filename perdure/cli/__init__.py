"""Command line, `perdure`: the answer on stdout, everything else on stderr."""

from __future__ import annotations

import gc
import os
import signal
from typing import NoReturn


def main() -> NoReturn:
    """Run the typed command and end the process."""
    # Imported objects stay: a garbage collection of them takes a tenth of a command's time.
    # `execute` collects again.
    gc.disable()
    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if (
        is_usual
    ):  # An exception in the middle of an import would be a traceback; no work has begun yet.
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from .entry import run_and_exit

    if is_usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run_and_exit()


__all__ = ["main"]
