"""What a run gives: answers, tool results, usage, typed output."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from perdure.client import get_run
from perdure.testing import asks, call, says
from perdure.tools import tool

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage


class Truth(TypedDict):
    is_true: bool


@tool
def shout(text: Annotated[str, "what to shout"] = "") -> str:
    """Shout."""
    return text.upper()


async def test_gives_the_providers_own_response_when_raw(stage: Stage, scripted: Scripted) -> None:
    agent = scripted_agent(
        scripted([says("yes")]), outputs=[{"name": "is_true", "kind": "boolean"}]
    )
    async with stage.worker():
        run = await stage.start(agent, raw=True)
        result = await get_run(stage.client, run.id, output_type=Truth).result()
    assert result.output == {**result.output, "object": "chat.completion"}


async def test_another_handle_gives_the_same_result(stage: Stage, scripted: Scripted) -> None:
    async with stage.worker([shout]):
        run = await stage.start(
            scripted_agent(scripted([asks(call("shout", text="x")), says("done")]), ["shout"])
        )
        result = await run.result()
    assert await get_run(stage.client, run.id).result() == result
