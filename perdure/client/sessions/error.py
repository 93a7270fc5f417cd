"""The error of a session that did not do what was asked of it."""

from __future__ import annotations


class SessionError(Exception):
    """A session did not take a message; an unconfirmed one may still arrive.

    `kind` says why: `busy` with a run (or too many messages wait), `closing`: the session takes no more messages,
    `ended` before the run of the message has begun, `unconfirmed` by any worker, `empty` or `too_large` message,
    `renumbered` run of a queued one, `refused` or `unreadable`, as the text says.
    """

    def __init__(self, message: str, *, kind: str, message_id: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message_id = message_id
        """Sent again under this id, the message counts once."""
