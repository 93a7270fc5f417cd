"""What a run has learned of its model's context holds in all links after it."""

from __future__ import annotations

from perdure.history.chain import read_links
from perdure.testing import ScriptedReply, ScriptedRequest, asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage

LIMIT, ROUNDS = 6_000, 16


async def test_a_run_over_several_links_is_refused_once(stage: Stage, scripted: Scripted) -> None:
    asked: list[int] = []
    refused: list[int] = []

    def script(request: ScriptedRequest) -> ScriptedReply:
        size = sum(len(message.text) for message in request.messages)
        if size > LIMIT:
            refused.append(size)
            text = f"prompt is too long: {size} tokens > {LIMIT} maximum"
            return ScriptedReply(status=400, error={"error": {"message": text}})
        asked.append(size)
        return asks(call("page", f"c{len(asked)}")) if len(asked) <= ROUNDS else says("done")

    def page(text: str = "") -> str:
        return "text " * 300

    async with stage.worker({"page": page}):
        run = await stage.start(
            scripted_agent(scripted(script), ["page"]), max_iterations=ROUNDS + 1
        )
        assert (await run.result()).output == "done"
    assert len(refused) == 1
    assert len(asked) == ROUNDS + 1
    assert len([link async for link in read_links(stage.client, run.id)]) > 2
