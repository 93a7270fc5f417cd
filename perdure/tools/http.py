"""What an HTTP status says of a request's effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def was_refused(status: int, headers: Mapping[str, Any]) -> bool:
    """Whether a server with this answer has certainly not done what it was asked to.

    So says a 4xx, unless the server has not waited for the whole request, and a 503 that names a better time. Any other
    5xx may come from half-done work, or from something between here and the server, which goes on.
    """
    if status == 503:
        return "retry-after" in headers
    return status == 501 or (400 <= status < 500 and status != 408)
