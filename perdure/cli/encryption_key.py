"""`perdure encryption-key`: make a key."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from .console import answer, say


def encryption_key(
    id: Annotated[
        str | None, typer.Argument(metavar="[KEYID]", help="The key's id, which everybody may see; default: the date.")
    ] = None,
) -> None:
    """Print a new key for PERDURE_ENCRYPTION_KEY.

    Clients and workers need the same keys. To change to a new one, put it before the old ones, with a comma: the first
    encrypts, all decrypt.
    """
    from ..payloads.encryption.keys import new_key

    answer(new_key(id or datetime.now(UTC).date().isoformat()))
    say("Keep it secret, and keep it: without it nobody can read what it has encrypted.", "faint")
