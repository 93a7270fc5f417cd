"""The names of `perdure.protocol.names`, for import by programs outside perdure."""

from __future__ import annotations

from ..protocol.names import EVENTS, STATUS, STEER, WORKFLOW

__all__ = ["EVENTS", "STATUS", "STEER", "WORKFLOW"]
