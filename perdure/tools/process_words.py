"""What a process writes that a tool has started: logged, so much and no more, and the last of it remembered."""

from __future__ import annotations

import logging
import time
from collections import deque

from ..excerpt import one_line, visible

_LINES_PER_MINUTE = 300
_LONGEST_LINE = 2000
_LAST_LINES = 5


class ProcessWords:
    """The words of one process, which `title` names in the log."""

    def __init__(self, title: str, log: logging.Logger) -> None:
        self._title = title
        self._log = log
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._minute = time.monotonic()
        self._lines = 0

    @property
    def last_words(self) -> str:
        """On one line."""
        return one_line(" / ".join(self._last), 500)

    def note(self, line: bytes, *, is_output: bool = False) -> None:
        """Log a line; `is_output` says that messages were expected where it came from."""
        text = visible(line[:_LONGEST_LINE].decode(errors="replace").rstrip())
        self._last += [text] if text else []
        if time.monotonic() - self._minute > 60:
            self._minute, self._lines = time.monotonic(), 0
        self._lines += 1
        if self._lines == _LINES_PER_MINUTE + 1:
            self._log.warning("%s says too much: the rest of this minute is left out", self._title)
        elif text and self._lines <= _LINES_PER_MINUTE:
            remark = " wrote what is no message" if is_output else ""
            self._log.log(logging.WARNING if remark else logging.INFO, "%s%s: %s", self._title, remark, text)
