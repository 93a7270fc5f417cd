"""`max_seconds` ends a run that waits, for a person or for another try."""

from __future__ import annotations

import pytest

from perdure.errors import LimitExceededError
from perdure.testing import asks, call
from perdure.tools import clear_tools, tool

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage


async def test_a_run_that_waits_for_a_person(stage: Stage, scripted: Scripted) -> None:
    executed: list[str] = []

    @tool(needs_approval=True)
    def pay(text: str = "") -> None:
        executed.append(text)

    clear_tools()
    async with stage.worker([pay]):
        run = await stage.start(
            scripted_agent(scripted([asks(call("pay"))]), ["pay"]), max_seconds=0.5
        )
        with pytest.raises(LimitExceededError, match=r"max_seconds \(0.5\) reached"):
            await run.result()
    assert executed == []
    assert (await run.status()).pending_approvals == []
