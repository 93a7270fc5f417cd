"""A model, a tool and names that try to act on the terminal."""

from __future__ import annotations

from perdure.testing import ScriptedReply, ScriptedRequest, asks, call, says
from perdure.tools import tool

ACTS = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eoh\u2066\r\x08"


@tool(description=f"Looks {ACTS}")
def look(at: str) -> str:
    if "fail" in at:
        raise ValueError(f"failed {at}")
    return f"seen {at}"


@tool(needs_approval=True, description=f"Pays {ACTS}")
def pay(to: str) -> str:
    return f"paid {to}"


def script(request: ScriptedRequest) -> ScriptedReply:
    if request.step == 0:
        calls = call("look", f"a{ACTS}", at=ACTS), call("look", "b", at=f"fail{ACTS}")
        return asks(*calls, text=f"Looking {ACTS}")
    return says(f"answer {ACTS}.")


def paying(request: ScriptedRequest) -> ScriptedReply:
    if request.step == 0:
        return asks(call("pay", f"$(touch owned); '{ACTS}", to=ACTS))
    return says(request.messages[-1].text)
