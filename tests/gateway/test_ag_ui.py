"""AG-UI's own client, against agents that are served."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2

from perdure.client import get_run
from perdure.json_types import JsonObject
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.chat_clients import ChatClients
from .conftest import Serve, Served
from .test_own import PAY, pay

TEXT = " ".join(f"word{number}" for number in range(60))
Seen = JsonObject


async def open_thread(clients: ChatClients, served: Served, name: str = "a1", **more: Any) -> None:
    url = f"{served.url}/ag-ui/tested"
    await clients.make("ag-ui", name, url=url, threadId=served.gateway.task_queue, **more)


async def say(clients: ChatClients, text: str, name: str = "a1", **options: Any) -> Seen:
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


async def test_a_thread_goes_on_and_an_interrupt_is_resumed(
    scripted: Scripted, serve_agents: Serve, clients: ChatClients
) -> None:
    model = scripted([says("Hello."), asks(call("pay", euros=3), text="I shall pay."), says(TEXT)])
    agent = scripted_agent(model, [PAY], instructions="system:\nA secret.")
    async with serve_agents(agent, tools={"pay": pay}) as served:
        await open_thread(clients, served)
        first = await say(clients, "Hi")
        assert (outcome_of(first), contents(first)) == (
            "success",
            [("user", "Hi"), ("assistant", "Hello.")],
        )
        asked = await say(clients, "Pay 3 euros")
        assert outcome_of(asked) == "interrupt"
        (interrupt,) = asked["interrupts"]
        assert interrupt["reason"] == "tool_call"
        (known,) = [
            each for message in asked["messages"] for each in message.get("toolCalls") or []
        ]
        assert (interrupt["toolCallId"], known["function"]["name"]) == (known["id"], "pay")

        await open_thread(clients, served, "a1-reloaded")
        again = await clients.do("a1-reloaded", "run")
        assert again["interrupts"] == asked["interrupts"]
        assert contents(again) == contents(asked)
        assert again["state"]["perdure"]["status"] == "waiting_for_approval"

        resume = [
            {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
        ]
        done, seen = await asyncio.gather(
            clients.do("a1", "run", resume=resume), clients.do("a1-reloaded", "run", resume=resume)
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


async def test_a_question_a_stop_a_failure_and_what_is_no_request(
    scripted: Scripted, serve_agents: Serve, clients: ChatClients
) -> None:
    asked = asks(call("ask_user", question="Which?", choices=["tea", "coffee"]))
    left = [
        asked,
        says("Tea."),
        says(TEXT, chunk_delay=0.1),
        *[asks(call("ask_user", question="?"))] * 2,
    ]
    model = scripted(lambda request: left.pop(0))
    settings = {"maxIterations": 2, "onFailure": "fail"}
    agent = scripted_agent(
        model, [{"name": "ask_user", "kind": "builtin"}], metadata={"perdure": settings}
    )
    async with (
        serve_agents(agent) as served,
        httpx2.AsyncClient(base_url=served.url, timeout=60) as http,
    ):
        await open_thread(clients, served, "a2")
        seen = await say(clients, "A drink", "a2")
        (interrupt,) = seen["interrupts"]
        assert (interrupt["reason"], interrupt["message"]) == ("input_required", "Which?")
        dismissed = [{"interruptId": interrupt["id"], "status": "cancelled"}]
        again = await clients.do("a2", "run", resume=dismissed)
        assert again["interrupts"] == seen["interrupts"]
        answered = [
            {"interruptId": interrupt["id"], "status": "resolved", "payload": {"answer": "tea"}}
        ]
        done = await clients.do("a2", "run", resume=answered)
        assert contents(done)[-1] == ("assistant", "Tea.")

        await clients.do("a2", "say", id="m2", text="More")
        running = asyncio.create_task(clients.do("a2", "run"))
        await clients.until("a2", lambda seen: "word1" in contents(seen)[-1][1])
        thread = served.gateway.task_queue
        assert (await http.post(f"/ag-ui/tested/{thread}/stop")).json() == {"stopped": True}
        assert outcome_of(await running) == "cancelled"

        good: Seen = {"threadId": thread, "runId": "r", "messages": []}
        wrong = [
            {},
            {**good, "threadId": "a/b"},
            {**good, "threadId": f"{thread}-new"},
            {**good, "messages": [1]},
        ]
        picture = {"type": "image", "source": {"type": "file", "value": "file-1"}}
        wrong.append({**good, "messages": [{"id": "1", "role": "user", "content": [picture]}]})
        assert {(await http.post("/ag-ui/tested", json=each)).status_code for each in wrong} == {
            422
        }


async def test_a_decision_by_another_protocol_counts(
    scripted: Scripted, serve_agents: Serve, clients: ChatClients
) -> None:
    model = scripted([asks(call("pay", euros=3)), says("Paid.")])
    async with serve_agents(scripted_agent(model, [PAY]), tools={"pay": pay}) as served:
        await open_thread(clients, served, "a3")
        asked = await say(clients, "Pay", "a3")
        (interrupt,) = asked["interrupts"]
        ours = interrupt["metadata"]["perdure"]
        run = get_run(served.gateway.client, ours["run"])
        await run.approve(ours["callId"], digest=ours["digest"])
        resume = [
            {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": False}}
        ]
        late_one = await clients.do("a3", "run", resume=resume)
        assert contents(late_one)[-1] == ("assistant", "Paid.")
