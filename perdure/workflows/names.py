"""The names of `perdure.protocol.names`, in the place where programs outside perdure import them from."""

from __future__ import annotations

from ..protocol.names import EVENTS, STATUS, STEER, WORKFLOW

__all__ = ["EVENTS", "STATUS", "STEER", "WORKFLOW"]
