"""The names of `perdure.protocol.names`, at the place that outside programs know."""

from ..protocol.names import EVENTS, STATUS, STEER, WORKFLOW

__all__ = ["EVENTS", "STATUS", "STEER", "WORKFLOW"]
