"""Cancellation and steering of a run by the caller that awaits it, from any thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence


class CancellationToken:
    """Cancels the runs that were given it (§13.2). Thread-safe; once cancelled, it stays
    cancelled.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._listeners: list[Callable[[], None]] = []

    @property
    def is_cancelled(self) -> bool:
        """Return whether `cancel` has been called."""
        return self._cancelled

    def cancel(self) -> None:
        """Cancel every run that was given this token. Returns at once; a second call has no
        effect.
        """
        with self._lock:
            if self._cancelled:
                return
            self._cancelled = True
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` on cancellation, in the thread that cancels; at once when that has
        happened already.
        """
        with self._lock:
            self._listeners.append(listener)
            cancelled = self._cancelled
        if cancelled:
            listener()

    def forget(self, listener: Callable[[], None]) -> None:
        """Undo `listen`. Raises ValueError when `listener` is not listening."""
        with self._lock:
            self._listeners.remove(listener)


class Steering:
    """Messages for a running agent (§13.5). Thread-safe; each message goes to one run, once, in
    order.

    What a run has not read when it ends successfully, or was sent after its end, waits here for the
    next one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: deque[str] = deque()
        self._listener: Callable[[], None] | None = None

    @property
    def has_pending(self) -> bool:
        """Whether there are messages that no run has received yet."""
        return bool(self._texts)

    def send(self, text: str) -> None:
        """Queue a message. Returns at once; without an open run, the next run that gets this object
        reads it.
        """
        with self._lock:
            self._texts.append(text)
            listener = self._listener
        if listener:
            listener()

    def drain(self) -> list[str]:
        """Take all queued messages, atomically; [] when there are none."""
        with self._lock:
            texts = list(self._texts)
            self._texts.clear()
        return texts

    def put_back(self, texts: Sequence[str]) -> None:
        """Put drained messages that were not delivered back at the front of the queue."""
        with self._lock:
            self._texts.extendleft(reversed(texts))

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Call `listener` after each message, in the thread that sends it; None ends that."""
        with self._lock:
            self._listener = listener
