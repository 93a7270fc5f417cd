"""The AI SDK's own chat, against agents that are served."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2

from perdure.gateway.app import gateway_app
from perdure.gateway.gateway import Gateway
from perdure.json_types import JsonObject
from perdure.payloads.codec_server.app import serve
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.chat_clients import ChatClients
from ..support.stage import Stage
from .conftest import Serve, Served
from .test_own import PAY, pay

Seen = JsonObject
TEXT = " ".join(f"word{number}" for number in range(60))
ASK_USER = {"name": "ask_user", "kind": "builtin"}


def text_of(message: Seen) -> str:
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


def texts_of(seen: Seen) -> list[str]:
    return [text_of(each) for each in seen["messages"]]


def tools_of(message: Seen) -> list[Seen]:
    return [part for part in message["parts"] if part["type"] == "dynamic-tool"]


async def open_chat(
    clients: ChatClients, served: Served, name: str, version: str = "ai", **more: Any
) -> str:
    """A page with the chat; returns the chat's id."""
    id = served.gateway.task_queue
    api = f"{more.pop('url', served.url)}/ai/tested" + ("?v=6" if version == "ai6" else "")
    await clients.make("ai-sdk", name, package=version, api=api, id=id, automatic=True, **more)
    return id


async def test_a_chat_goes_on_and_an_approval_is_decided_in_it(
    scripted: Scripted, serve_agents: Serve, clients: ChatClients
) -> None:
    model = scripted([says("Hello."), asks(call("pay", euros=3), text="I shall pay."), says(TEXT)])
    async with serve_agents(scripted_agent(model, [PAY]), tools={"pay": pay}) as served:
        id = await open_chat(clients, served, "p1")
        first = await clients.do("p1", "send", text="Hi")
        assert (texts_of(first), first["messages"][1]["id"]) == (["Hi", "Hello."], f"{id}/1")
        asked = await clients.do("p1", "send", text="Pay 3 euros")
        (tool,) = tools_of(asked["messages"][-1])
        assert (tool["state"], tool["input"]) == ("approval-requested", {"euros": 3})
        assert (text_of(asked["messages"][-1]), asked["status"]) == ("I shall pay.", "ready")

        await open_chat(clients, served, "p1-reloaded", messages=first["messages"])
        again = await clients.do("p1-reloaded", "resume")
        assert tools_of(again["messages"][-1]) == [tool]
        assert text_of(again["messages"][-1]) == "I shall pay."

        await clients.do("p1", "approve", id=tool["approval"]["id"], approved=True)
        done = await clients.until(
            "p1", lambda seen: text_of(seen["messages"][-1]) != "I shall pay."
        )
        assert text_of(done["messages"][-1]) == "I shall pay." + TEXT
        (tool,) = tools_of(done["messages"][-1])
        assert (tool["state"], tool["output"]) == ("output-available", "paid 3")
        assert (done["requests"], done["errors"], len(done["messages"])) == (3, [], 4)
    assert len(model.requests) == 3


async def test_a_denial_and_other_arguments_with_version_6(
    scripted: Scripted, serve_agents: Serve, clients: ChatClients
) -> None:
    both = [call("pay", "c1", euros=3), call("pay", "c2", euros=400)]
    model = scripted([asks(*both, text="Two payments."), says("One is paid.")])
    agent = scripted_agent(model, [PAY], metadata={"perdure": {"parallelToolCalls": True}})
    async with serve_agents(agent, tools={"pay": pay}) as served:
        await open_chat(clients, served, "p2", "ai6")
        seen = await clients.do("p2", "send", text="Pay them")
        ids = [each["approval"]["id"] for each in tools_of(seen["messages"][-1])]
        assert len(ids) == 2
        body = {"arguments": {ids[0]: {"euros": 2}}}
        await clients.do("p2", "approve", id=ids[0], approved=True, body=body)
        await clients.do("p2", "approve", id=ids[1], approved=False, reason="too much", body=body)
        done = await clients.until("p2", lambda seen: "One is" in text_of(seen["messages"][-1]))
        paid, denied = tools_of(done["messages"][-1])
        assert (paid["input"], denied["state"]) == ({"euros": 2}, "output-denied")
        assert paid["output"].endswith("paid 2")
        assert (text_of(done["messages"][-1]), done["errors"]) == ("Two payments.One is paid.", [])
    assert "too much" in str(model.requests[-1].body["messages"])


async def test_a_message_that_is_sent_again_is_no_answer_to_what_it_has_led_to(
    scripted: Scripted, serve_agents: Serve, clients: ChatClients
) -> None:
    asked = asks(call("ask_user", question="Which?", choices=["tea", "coffee"]))
    model = scripted([asked, says("Tea it is.")])
    async with serve_agents(scripted_agent(model, [ASK_USER])) as served:
        id = await open_chat(clients, served, "p3-again")
        sent = await clients.do("p3-again", "send", text="tea")
        parts = sent["messages"][-1]["parts"]
        (question,) = [each["data"] for each in parts if each["type"] == "data-question"]
        about = {"question": "Which?", "choices": ["tea", "coffee"]}
        assert question == {**about, "allowOther": True}
        # As the page sends it that was never told of the question.
        repeated = {"id": id, "messages": sent["messages"][:1], "trigger": "submit-message"}
        async with httpx2.AsyncClient(base_url=served.url, timeout=60) as http:
            assert '"data-question"' in (await http.post("/ai/tested", json=repeated)).text
        assert len(model.requests) == 1
        # The same words of another message are its answer.
        done = await clients.do("p3-again", "send", text="tea")
        assert "Tea it is." in [text_of(each) for each in done["messages"]]
    assert len(model.requests) == 2


async def test_a_page_that_is_cut_goes_on_at_another_gateway(
    stage: Stage, scripted: Scripted, serve_agents: Serve, clients: ChatClients
) -> None:
    model = scripted([says(TEXT, chunk_delay=0.03)])
    async with serve_agents(scripted_agent(model)) as served:
        other = gateway_app(Gateway(stage.client, served.gateway.offers, stage.task_queue))
        async with serve(other, "127.0.0.1", 0) as url:
            await open_chat(clients, served, "p4")
            sending = asyncio.create_task(clients.do("p4", "send", text="Go"))
            begun = await clients.until(
                "p4", lambda seen: "word3" in "".join(texts_of(seen)), settled=False
            )
            await clients.do("p4", "stop")  # Closes the connection, and ends nothing.
            await sending
            assert TEXT.startswith(texts_of(begun)[-1])
            for name, messages in (("p4-again", begun["messages"]), ("p4-empty", [])):
                await open_chat(clients, served, name, url=url, messages=messages)
            whole, alone = await asyncio.gather(
                *(clients.do(name, "resume") for name in ("p4-again", "p4-empty"))
            )
            assert (texts_of(whole), texts_of(alone)) == (["Go", TEXT], [TEXT])
            async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
                body = {
                    "id": stage.task_queue,
                    "messages": begun["messages"][:1],
                    "trigger": "submit-message",
                }
                repeated = await http.post("/ai/tested", json=body)
                assert repeated.text.count('"finish"') == 1
                assert (
                    await http.get(f"/ai/tested/{stage.task_queue}-new/stream")
                ).status_code == 204
    assert len(model.requests) == 1


async def test_stop_and_failure_are_one_end_each(
    scripted: Scripted, serve_agents: Serve, clients: ChatClients
) -> None:
    left = [says(TEXT, chunk_delay=0.1), asks(call("pay", euros=1))]
    model = scripted(lambda request: left.pop(0))
    settings = {"maxIterations": 1, "onFailure": "fail"}
    agent = scripted_agent(model, [{**PAY, "perdure": {}}], metadata={"perdure": settings})
    async with serve_agents(agent, tools={"pay": pay}) as served:
        id = await open_chat(clients, served, "p5")
        sending = asyncio.create_task(clients.do("p5", "send", text="Go"))
        await clients.until("p5", lambda seen: "word1" in "".join(texts_of(seen)), settled=False)
        async with httpx2.AsyncClient(base_url=served.url, timeout=60) as http:
            assert (await http.post(f"/ai/tested/{id}/stop")).json() == {"stopped": True}
            stopped = await sending
            assert stopped["messages"][-1]["metadata"]["perdure"]["status"] == "cancelled"
            assert (await http.post(f"/ai/tested/{id}/stop")).json() == {"stopped": False}
            failed = await clients.do("p5", "send", text="Again")
            assert (failed["status"], "max_iterations" in failed["error"]) == ("error", True)
            lines = (await http.get(f"/ai/tested/{id}/stream")).text.split("\n\n")
            ends = [
                each
                for each in lines
                if any(f'"type": "{end}"' in each for end in ("finish", "error", "abort"))
            ]
            assert (len(ends), lines[-2]) == (1, "data: [DONE]")
            says_x = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "x"}]}
            wrong = [{"id": "a/b", "messages": [says_x]}, {"id": id, "messages": []}, {}]
            wrong += [
                {"id": id, "messages": [{**says_x, "parts": parts}]}
                for parts in ([], [{"type": 1}])
            ]
            assert {(await http.post("/ai/tested", json=each)).status_code for each in wrong} == {
                422
            }
