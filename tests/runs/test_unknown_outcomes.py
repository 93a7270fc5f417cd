"""Calls of unknown outcome on a server: what the run remembers of them, and who is asked before one
is repeated.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import Done, NotDone, ToolContext, tool
from perdure.json_types import JsonObject
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.stage import Stage
from ..support.unknown_outcomes import RECONCILES

PAY = {"name": "pay", "kind": "function"}
TIMED_OUT = "Error: Tool 'pay' failed: timed out after 0.3 seconds"


class Bank:
    """Pays, but its answer to the first request never comes."""

    def __init__(self, **declared: Any) -> None:
        self.paid: list[tuple[str, bool]] = []
        """The key of each payment, and whether it was known that it may be a repetition."""

        @tool(timeout=0.3, **declared)
        async def pay(context: ToolContext) -> str:
            self.paid.append((context.idempotency_key, context.may_repeat))
            if len(self.paid) == 1:
                await asyncio.sleep(60)
            return "paid"

        self.pay = pay


@pytest.mark.parametrize(("is_done", "payments"), [(True, 1), (False, 2)])
async def test_the_tool_finds_out_by_the_first_call_s_key(
    stage: Stage, scripted: Scripted, is_done: bool, payments: int
) -> None:
    def look(arguments: JsonObject, key: str) -> Done | NotDone:
        assert arguments == {}
        return Done("paid before") if is_done and key == bank.paid[0][0] else NotDone()

    bank = Bank(reconcile=look)
    model = scripted([asks(call("pay")), asks(call("pay")), says("done")])
    async with stage.worker([bank.pay]):
        run = await stage.start(scripted_agent(model, [PAY]))
        result = await run.result()
    assert tool_texts(result.messages) == [
        f"{TIMED_OUT}{RECONCILES}",
        "paid before" if is_done else "paid",
    ]
    assert len(bank.paid) == payments
