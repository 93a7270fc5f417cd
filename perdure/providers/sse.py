"""Splits a byte stream into server-sent events, wherever the network divides it.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventDecoder:
    """Takes chunks of bytes and gives the `data` of each complete event; comments and other fields are skipped."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._held = 0

    @property
    def pending(self) -> int:
        """How many bytes wait for the end of their event."""
        return len(self._rest) + self._held

    def feed(self, chunk: bytes) -> Iterator[str]:
        """The events that this chunk completes. What is not UTF-8 in them becomes U+FFFD."""
        held_back = self._rest.endswith(b"\r")
        self._rest += chunk
        if b"\n" not in chunk and b"\r" not in chunk and not held_back:
            return
        end = len(self._rest) - self._rest.endswith(b"\r")  # the LF of a CRLF may still be to come
        *lines, unfinished = _LINE_END.split(bytes(self._rest[:end]))
        self._rest = bytearray(unfinished) + self._rest[end:]
        for line in lines:
            if event := self._take(line):
                yield event

    def _take(self, line: bytes) -> str | None:
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
            self._held += len(line)
        if line or not self._data:
            return None
        event = b"\n".join(self._data)
        self._data.clear()
        self._held = 0
        try:
            return event.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return event.decode(errors="replace")
