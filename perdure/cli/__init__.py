"""Command line, `perdure`: the answer on stdout, everything else on stderr."""

from __future__ import annotations

import gc
import os
import signal
from typing import NoReturn


def main() -> NoReturn:
    """Run the command that was typed, and end the process."""
    # What is imported stays: to look through it for garbage takes a tenth of a command's time. `execute` looks again.
    gc.disable()
    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_usual:  # An exception in the middle of an import would be a traceback; nothing has begun yet.
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from .entry import run_and_exit

    if is_usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run_and_exit()


__all__ = ["main"]
