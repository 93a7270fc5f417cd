"""Logs the output of a process that a tool has started, up to a limit, and remembers the last of
it.
"""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from pathlib import Path

from ..text import one_line, visible

_LINES_PER_MINUTE = 300
_LONGEST_LINE = 2000
_LAST_LINES = 5
_CRASH = "Fatal Python error: "
_FRAME = re.compile(r'  File "(?P<file>[^"]*)", line (?P<line>\d+|\?\?\?) in (?P<function>.*)')
_CRASH_LINES = 8
_CRASH_DUMP_LINES = 200
_NOT_THE_TOOLS = (f"{Path(__file__).parents[1]}/", "<frozen ")


class ProcessWords:
    """The output of one process, named `title` in the log."""

    def __init__(self, title: str, log: logging.Logger) -> None:
        self._title = title
        self._log = log
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._crash: list[str] = []
        self._is_crashed_thread = False
        self._minute = time.monotonic()
        self._lines = 0
        self._left_out = 0
        self._begun = b""
        """The start of an unfinished line."""

    @property
    def last_words(self) -> str:
        """The last output on one line; after a crash of Python, its kind and the tool's innermost
        frames.
        """
        return one_line(" / ".join(self._crash or self._last), 500)

    def hear(self, chunk: bytes) -> None:
        """Log the lines in the next chunk of output. Excess lines are only counted."""
        whole, is_whole, rest = (self._begun + chunk).rpartition(b"\n")
        self._begun = rest[:_LONGEST_LINE]
        if not is_whole:
            return
        lines = whole.split(b"\n", self._room() + 1)
        much = lines.pop() if len(lines) > self._room() + 1 else b""
        for line in lines:
            self.note(line)
        if much:
            self._left_out += much.count(b"\n") + 1
            crash = much.rfind(_CRASH.encode())
            kept = (
                much[crash:].split(b"\n", _CRASH_DUMP_LINES)[:_CRASH_DUMP_LINES]
                if crash >= 0
                else []
            )
            for line in kept or much[-_LONGEST_LINE:].split(b"\n")[-_LAST_LINES:]:
                self._remember(line)

    def end(self) -> None:
        """Log an unfinished last line, and the number of lines left out."""
        if self._begun:
            self.note(self._begun)
            self._begun = b""
        self._tell_left_out()

    def note(self, line: bytes, *, is_output: bool = False) -> None:
        """Log a line; `is_output` means that the process should have written messages there."""
        text = self._remember(line)
        room = self._room()
        self._lines += 1
        if not room:
            if not self._left_out:
                self._log.warning(
                    "%s writes too much: the rest of this minute is left out", self._title
                )
            self._left_out += 1
        elif text:
            remark = " wrote something that is not a message" if is_output else ""
            self._log.log(
                logging.WARNING if remark else logging.INFO, "%s%s: %s", self._title, remark, text
            )

    def _remember(self, line: bytes) -> str:
        text = visible(line[:_LONGEST_LINE].decode(errors="replace").rstrip())
        self._last += [text] if text else []
        self._note_crash(text)
        return text

    def _room(self) -> int:
        """Return how many more lines of this minute may be logged."""
        if time.monotonic() - self._minute > 60:
            self._tell_left_out()
            self._minute, self._lines = time.monotonic(), 0
        return max(0, _LINES_PER_MINUTE - self._lines)

    def _tell_left_out(self) -> None:
        if self._left_out:
            self._log.warning("%s: %s lines were left out", self._title, f"{self._left_out:,}")
            self._left_out = 0

    def _note_crash(self, text: str) -> None:
        """Keep the output of `faulthandler` about the crashed thread, without frames and folders of
        this machinery.
        """
        if text.startswith(_CRASH):
            self._crash, self._is_crashed_thread = [text], False
        elif self._crash and "(most recent call first)" in text:
            self._is_crashed_thread = text.startswith(("Current thread", "Stack"))
        elif (
            self._is_crashed_thread
            and len(self._crash) < _CRASH_LINES
            and (frame := _FRAME.fullmatch(text))
        ):
            file = frame["file"]
            if not file.startswith(_NOT_THE_TOOLS):
                self._crash.append(f"{Path(file).name}:{frame['line']} in {frame['function']}")
