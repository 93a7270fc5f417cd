"""What the help desk's models say where there is no provider's key: made from what the tools really
return.
"""

from __future__ import annotations

import json
from typing import Any

from perdure.testing import ScriptedReply, ScriptedRequest, asks, call, says


def scripted_reply(request: ScriptedRequest) -> ScriptedReply:
    """The reply to each step; for `perdure.testing.ScriptedModel`."""
    if request.messages[0].text.startswith("You write short, friendly letters."):
        return says(_letter(request))
    results = _results(request)
    if "customer" not in results:
        return asks(call("find_customer", "customer"), call("look_up_rule", "rule", topic="refund"))
    if "order" not in results:
        return asks(call("getOrder", "order", number=results["customer"]["orders"][-1]))
    if "refund" not in results:
        number, paid = results["customer"]["orders"][-1], results["order"]["paid"]
        return asks(
            call(
                "refundOrder",
                "refund",
                number=number,
                amount=paid,
                reason="The article does not work.",
            )
        )
    if "letter" not in results:
        notes = f"Rule: {results['rule']} What became of the refund: {results['refund']}"
        return asks(call("write_reply", "letter", notes=notes, name=results["customer"]["name"]))
    return says(str(results["letter"]))


def _letter(request: ScriptedRequest) -> str:
    name, _, notes = request.messages[-1].text.removeprefix("Write to ").partition(". Notes:")
    return f"Dear {name}, we are sorry. {notes.strip()}"


def _results(request: ScriptedRequest) -> dict[str, Any]:
    """Call id → what the tool returned."""
    answers = [message for message in request.messages if message.role == "tool"]
    return {message.metadata["tool_call_id"]: _read(message.text) for message in answers}


def _read(content: str) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content
