"""For tests of agents: a model that plays a script over real HTTP, in every wire format."""

from .script import Script, ScriptedReply, ScriptedRequest
from .server import ScriptedModel

__all__ = ["Script", "ScriptedModel", "ScriptedReply", "ScriptedRequest"]
