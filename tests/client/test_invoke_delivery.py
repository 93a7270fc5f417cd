"""What a caller says inside a tool of `invoke_agent` reaches the run before anything else happens
there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from temporalio.client import Client

from perdure import CancellationToken, RunCancelled, Steering, invoke_agent_async
from perdure.json_types import JsonObject
from perdure.testing import asks, call, says

from ..runs.test_bounded import noise
from ..support.agents import Scripted, scripted_agent

Try = Callable[[Client, Scripted], Any]


async def cancelled_in_a_tool(client: Client, scripted: Scripted) -> list[str]:
    """Which tools of one reply run when the first of them cancels."""
    token, ran = CancellationToken(), []

    def stops(text: str = "") -> str:
        ran.append("stops")
        token.cancel()
        return "stopped"

    def goes_on(text: str = "") -> str:
        ran.append("goes_on")
        return "no"

    model = scripted([asks(call("stops"), call("goes_on")), says("no")])
    agent = scripted_agent(model, ["stops", "goes_on"])
    with pytest.raises(RunCancelled):
        await invoke_agent_async(agent, {}, [stops, goes_on], cancel=token, client=client)
    return ran


async def steered_in_a_tool(client: Client, scripted: Scripted) -> list[str]:
    """What the call after the tool is sent, behind the tool's result."""
    steering = Steering()

    def speaks(text: str = "") -> str:
        steering.send("one")
        steering.send("two")
        return "spoken"

    model = scripted([asks(call("speaks")), says("done"), says("once more")])
    await invoke_agent_async(
        scripted_agent(model, ["speaks"]), {}, [speaks], steering=steering, client=client
    )
    return [message.text for message in model.requests[1].messages[-3:]]


async def steered_at_done(client: Client, scripted: Scripted) -> list[str]:
    """What the next run that is given the steering would get, when a message comes with the last
    event.
    """
    steering = Steering()

    async def on_event(type: str, data: JsonObject) -> None:
        await asyncio.sleep(0)
        if type == "done":
            steering.send("late")
            steering.send("later")

    agent = scripted_agent(scripted([says("done")]))
    await invoke_agent_async(agent, {}, steering=steering, on_event=on_event, client=client)
    assert steering.has_pending
    return steering.drain()


async def steered_too_late(client: Client, scripted: Scripted) -> list[str]:
    """What the next run would get, when the run may not call its model any more after the
    message.
    """
    steering = Steering()

    def speaks(text: str = "") -> str:
        steering.send("one")
        steering.send("two")
        return "spoken"

    agent = scripted_agent(scripted([asks(call("speaks"))]), ["speaks"])
    options: JsonObject = {"max_iterations": 1, "on_limit": "partial", "client": client}
    await invoke_agent_async(agent, {}, [speaks], steering=steering, **options)
    return steering.drain()


async def steered_too_much_at_once(client: Client, scripted: Scripted) -> list[Any]:
    """What the call after the tool is sent, and what comes back, when one of three messages is too
    large to be sent.
    """
    steering = Steering()
    too_large = noise(4_000_000)

    def speaks(text: str = "") -> str:
        for each in ("one", too_large, "two"):
            steering.send(each)
        return "spoken"

    model = scripted([asks(call("speaks")), says("done"), says("once more")])
    await invoke_agent_async(
        scripted_agent(model, ["speaks"]), {}, [speaks], steering=steering, client=client
    )
    return [message.text for message in model.requests[1].messages[-3:]] + [
        steering.drain() == [too_large]
    ]


SAID = [
    (cancelled_in_a_tool, ["stops"]),
    (steered_in_a_tool, ["spoken", "one", "two"]),
    (steered_at_done, ["late", "later"]),
    (steered_too_late, ["one", "two"]),
    (steered_too_much_at_once, ["spoken", "one", "two", True]),
]


@pytest.mark.parametrize(("attempt", "expected"), SAID)
async def test_what_is_said_in_a_tool_arrives(
    client: Client, scripted: Scripted, attempt: Try, expected: Any
) -> None:
    assert await attempt(client, scripted) == expected
