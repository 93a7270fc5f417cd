"""What whoever lets a held run go on has changed holds in all links after it, however often it
continues as new.
"""

from __future__ import annotations

from perdure.client import RunHandle
from perdure.history.chain import read_links
from perdure.protocol.outcome import Held
from perdure.testing import ScriptedReply, ScriptedRequest, asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage
from ..support.waiting import wait_for

ROUNDS, REVOKED_AT = 10, (1, 8)


async def held(run: RunHandle) -> list[Held]:
    async def why() -> list[Held]:
        return (await run.status()).held

    return await wait_for(why)


async def test_a_run_that_is_held_in_two_links_goes_on_as_it_was_told(
    stage: Stage, scripted: Scripted
) -> None:
    executed: list[str] = []

    def look(text: str = "") -> str:
        executed.append(text)
        return "seen " + "x" * 500

    def script(request: ScriptedRequest) -> ScriptedReply:
        key = request.body["model"]
        if request.step in REVOKED_AT and key == (
            "scripted" if request.step == REVOKED_AT[0] else "other"
        ):
            return ScriptedReply(status=401)
        step = request.step
        return asks(call("look", f"c{step}", text=str(step))) if step < ROUNDS else says("done")

    model = scripted(script)
    async with stage.worker({"look": look}):
        run = await stage.start(
            scripted_agent(model, ["look"]), on_failure="hold", max_iterations=5, max_seconds=3600.0
        )
        assert [why.reason for why in await held(run)] == ["credentials"]
        await run.go_on(model="other", options={"max_iterations": ROUNDS + 5}, by="ann")

        async def is_held_again() -> bool:
            status = await run.status()
            return bool(status.held) and status.model_calls == REVOKED_AT[1]

        await wait_for(is_held_again)
        await run.go_on(model="third")
        assert (await run.result()).output == "done"
    assert executed == [str(number) for number in range(ROUNDS)]
    asked = [(request.step, request.body["model"]) for request in model.requests]
    first, second = REVOKED_AT
    assert asked == [
        *((step, "scripted") for step in range(first + 1)),
        *((step, "other") for step in range(first, second + 1)),
        *((step, "third") for step in range(second, ROUNDS + 1)),
    ]
    assert len([link async for link in read_links(stage.client, run.id)]) > 2
    assert [event.type for event in await run.events() if event.type in ("held", "went_on")] == [
        "held",
        "went_on",
    ] * 2
