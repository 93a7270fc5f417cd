"""AG-UI's own client, against agents that are served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from perdure.testing import ScriptedModel, asks, call, says
from perdure.testing.script import Script

from ..support.agents import scripted_agent
from ..support.chat_clients import ChatClients, chat_clients
from .conftest import Serve, Served
from .test_own import PAY, pay

Scripted = Callable[[Script], ScriptedModel]
TEXT = " ".join(f"word{number}" for number in range(60))
Seen = dict[str, Any]


async def open_thread(clients: ChatClients, served: Served, name: str = "page", **more: Any) -> None:
    url = f"{served.url}/ag-ui/tested"
    await clients.make("ag-ui", name, url=url, threadId=served.gateway.task_queue, **more)


async def say(clients: ChatClients, text: str, name: str = "page", **options: Any) -> Seen:
    await clients.do(name, "say", id=f"m-{text}", text=text)
    return await clients.do(name, "run", **options)


def contents(seen: Seen) -> list[tuple[str, str]]:
    return [(each["role"], each.get("content") or "") for each in seen["messages"]]


def types_of(seen: Seen) -> list[str]:
    return [each["type"] for each in seen["events"]]


def outcome_of(seen: Seen) -> str:
    ends = [each for each in seen["events"] if each["type"] in ("RUN_FINISHED", "RUN_ERROR")]
    assert len(ends) == 1, types_of(seen)
    assert seen["events"][-1] == ends[0]
    return str(ends[0]["outcome"]["type"] if "outcome" in ends[0] else ends[0]["code"])


async def test_a_thread_goes_on_and_an_interrupt_is_resumed(scripted: Scripted, serve_agents: Serve) -> None:
    model = scripted([says("Hello."), asks(call("pay", euros=3), text="I shall pay."), says(TEXT)])
    agent = scripted_agent(model, [PAY], instructions="system:\nA secret.")
    async with serve_agents(agent, tools={"pay": pay}) as served, chat_clients() as clients:
        await open_thread(clients, served)
        first = await say(clients, "Hi")
        assert (outcome_of(first), contents(first)) == ("success", [("user", "Hi"), ("assistant", "Hello.")])
        asked = await say(clients, "Pay 3 euros")
        assert outcome_of(asked) == "interrupt"
        (interrupt,) = asked["interrupts"]
        assert interrupt["reason"] == "tool_call"
        (known,) = [each for message in asked["messages"] for each in message.get("toolCalls") or []]
        assert (interrupt["toolCallId"], known["function"]["name"]) == (known["id"], "pay")

        await open_thread(clients, served, "reloaded")
        again = await clients.do("reloaded", "run")
        assert again["interrupts"] == asked["interrupts"]
        assert contents(again) == contents(asked)
        assert again["state"]["perdure"]["status"] == "waiting_for_approval"

        resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
        done, seen = await asyncio.gather(
            clients.do("page", "run", resume=resume), clients.do("reloaded", "run", resume=resume)
        )
        for each in (done, seen):
            assert outcome_of(each) == "success"
            assert contents(each)[2:] == [
                ("user", "Pay 3 euros"),
                ("assistant", "I shall pay."),
                ("tool", "paid 3"),
                ("assistant", TEXT),
            ]
            assert each["errors"] == []
    assert len(model.requests) == 3
