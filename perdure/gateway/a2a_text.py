"""Streams the text of a run as pieces of an A2A artifact: text that does not extend the sent text
replaces it.
"""

from __future__ import annotations

from ..client.callers import text_after
from ..events import RunEvent


class ArtifactText:
    """The client's copy of the artifact. Unlike in other protocols, it can be replaced."""

    def __init__(self, held_back: int | None) -> None:
        """`held_back` is the number of a text's first characters that are held back until more
        follow; None for all.
        """
        self._held_back = held_back
        self._text = ""
        self._sent = ""

    def more(self, event: RunEvent) -> tuple[str, bool] | None:
        """Return a piece, and whether it extends the sent text; None if nothing is new."""
        match event.type:
            case "llm_start" | "text_reset":
                self._text = ""
            case "token" | "llm_complete":
                self._text = text_after(event, self._text)
                if self._held_back is not None and len(self._text) > self._held_back:
                    return self._send(self._text)
            case "done":
                return self._send(event.data["response"])
        return None

    def _send(self, text: str) -> tuple[str, bool] | None:
        if text == self._sent:
            return None
        goes_on = bool(self._sent) and text.startswith(self._sent)
        piece = text[len(self._sent) :] if goes_on else text
        self._sent = text
        return piece, goes_on
