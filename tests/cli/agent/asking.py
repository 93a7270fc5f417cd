"""A model that asks the user once."""

from __future__ import annotations

from perdure.testing import ScriptedReply, ScriptedRequest, asks, call, says


def script(request: ScriptedRequest) -> ScriptedReply:
    if request.step == 0:
        return asks(
            call(
                "ask_user", "c1", question="Where to?", choices=["Rome", "Oslo"], allow_other=False
            )
        )
    return says(f"booked {request.messages[-1].text}")
