"""Command line, `perdure`: the answer on stdout, everything else on stderr."""

from .entry import main

__all__ = ["main"]
