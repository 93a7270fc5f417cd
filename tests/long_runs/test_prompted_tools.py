"""A run whose provider has refused tools knows that in all its links."""

from __future__ import annotations

from perdure.loop.state import LoopState
from perdure.protocol.run import Carried

from ..support.agents import Scripted, scripted_agent
from ..support.comparison import links
from ..support.prompted import ECHO, echo, two_phases, without_tools
from ..support.stage import Stage


async def test_tools_are_refused_once_in_a_run_of_many_links(
    stage: Stage, scripted: Scripted
) -> None:
    model = scripted(without_tools(two_phases(*[ECHO] * 5, "{}")))
    async with stage.worker({"echo": echo}):
        run = await stage.start(scripted_agent(model, ["echo"]), tool_protocol="auto")
        result = await run.result()
    assert (result.output, result.iterations) == ("Done", 7)
    assert len(await links(stage.client, run.id)) > 1
    assert ["tools" in request.body for request in model.requests].count(True) == 1
    told = [
        message.text[:11]
        for message in model.requests[-1].messages
        if message.text.startswith("[Step")
    ]
    assert told == [f"[Step {number}/10]" for number in range(1, 6)]


def test_a_link_may_begin_between_the_phases() -> None:
    state = LoopState(prompted=True, answering=True, answers=2, draft="It is 4.", iterations=7)
    carried = Carried.model_validate(
        {"loop": state, "inventory": {}, "version": 0, "digest": "", "last_seq": 0}
    )
    assert Carried.model_validate_json(carried.model_dump_json()).loop == state
    assert state.steps == 5
