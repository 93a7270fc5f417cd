"""Tells the user that the server does not answer, and that the command waits for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from .console import say


class _Teller(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage(), "strong")


@contextmanager
def waiting_shown() -> Iterator[None]:
    """Within it, a line on stderr says when the server stops to answer, and one when it answers again."""
    from ..client.reading.patience import logger

    teller, before = _Teller(), (logger.level, logger.propagate)
    logger.addHandler(teller)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(teller)
        logger.setLevel(before[0])
        logger.propagate = before[1]
