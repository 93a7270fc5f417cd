"""Command line, `perdure`: the answer on stdout, everything else on stderr."""

from __future__ import annotations

import gc
from typing import NoReturn


def main() -> NoReturn:
    """Run the command that was typed, and end the process."""
    # What is imported stays: to look through it for garbage takes a tenth of a command's time. `execute` looks again.
    gc.disable()
    from .entry import run_and_exit

    run_and_exit()


__all__ = ["main"]
