"""Logs once, and in a line, that a run is left to workers that have its key: Temporal's SDK does so at every try."""

from __future__ import annotations

import logging
from collections import OrderedDict

from ..payloads.encryption import EncryptionError

SDK_LOGGER = "temporalio.worker._workflow"
MAX_RUNS = 1000
"""So many runs are remembered to have been mentioned."""


class OncePerRun(logging.Filter):
    """Keeps the first record about each run that can't be decrypted, without its traceback; lets all others pass."""

    def __init__(self) -> None:
        super().__init__()
        self._mentioned: OrderedDict[object, None] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, EncryptionError):
            return True
        run = record.args[0] if isinstance(record.args, tuple) and record.args else record.msg
        if run in self._mentioned:
            return False
        self._mentioned[run] = None
        if len(self._mentioned) > MAX_RUNS:
            self._mentioned.popitem(last=False)
        record.msg, record.args = "The run with run ID %s is left to a worker that can read it: %s", (run, error)
        record.exc_info = record.exc_text = None
        return True


_once = OncePerRun()


def mention_once() -> None:
    """From now on, this process logs about each such run once."""
    logging.getLogger(SDK_LOGGER).addFilter(_once)
