"""Agents as OpenAI's responses, asked by OpenAI's own client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from perdure.gateway.app import gateway_app
from perdure.gateway.gateway import Gateway
from perdure.json_types import JsonObject
from perdure.payloads.codec_server.app import serve
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage
from .conftest import Serve, Served
from .test_openai_chat import client_of, echo, in_turn
from .test_own import PAY, TEXT, pay


async def read(stream: Any) -> list[Any]:
    return [event async for event in stream]


def text_in(events: list[Any]) -> str:
    return "".join(each.delta for each in events if each.type == "response.output_text.delta")


def kinds(response: Response) -> list[str]:
    return [each.type for each in response.output]


async def ended(client: openai.AsyncOpenAI, id: str) -> Response:
    async with asyncio.timeout(30):
        while (response := await client.responses.retrieve(id)).status in ("queued", "in_progress"):
            await asyncio.sleep(0.1)
        return response


async def test_whole_and_streamed(scripted: Scripted, serve_agents: Serve) -> None:
    model = scripted([asks(call("echo", text="x")), says(TEXT)] * 2)
    agent = scripted_agent(model, ["echo"], instructions="system:\nBe brief.")
    async with serve_agents(agent, tools={"echo": echo}) as served, client_of(served) as client:
        whole = await client.responses.create(model="tested", input="Hi", metadata={"a": "b"})
        assert (whole.output_text, whole.status, whole.metadata) == (TEXT, "completed", {"a": "b"})
        assert kinds(whole) == ["mcp_call", "message"]
        assert whole.output[0].output == "x"
        assert whole.usage is not None
        assert whole.usage.total_tokens > 0
        again = await client.responses.retrieve(whole.id)
        assert again == whole
        async with client.responses.stream(model="tested", input="Hello") as stream:
            events = await read(stream)
            final = await stream.get_final_response()
        numbers = [each.sequence_number for each in events]
        assert numbers == sorted(set(numbers))
        assert max(numbers) < 2**53
        assert (text_in(events), final.output_text) == (TEXT, TEXT)
        assert [each.type for each in events if each.type.startswith("response.completed")] == [
            "response.completed"
        ]
    assert [each["role"] for each in model.requests[0].body["messages"]] == ["system", "user"]


@asynccontextmanager
async def another_gateway(stage: Stage, served: Served) -> AsyncIterator[openai.AsyncOpenAI]:
    """A client of a second gateway, which shares nothing with the first but Temporal."""
    other = gateway_app(Gateway(stage.client, served.gateway.offers, stage.task_queue))
    async with (
        serve(other, "127.0.0.1", 0) as url,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any") as client,
    ):
        yield client


async def test_a_background_stream_goes_on_at_every_position(
    stage: Stage, scripted: Scripted, serve_agents: Serve
) -> None:
    agent = scripted_agent(scripted([says(TEXT, chunk_delay=0.02)]))
    async with (
        serve_agents(agent) as served,
        client_of(served) as client,
        another_gateway(stage, served) as other,
    ):
        stream = await client.responses.create(
            model="tested", input="Hi", background=True, stream=True
        )
        live = await read(stream)
        id = live[0].response.id
        assert [each.type for each in live[:3]] == [
            "response.created",
            "response.queued",
            "response.in_progress",
        ]
        assert live[0].response.background
        assert len([each for each in live if each.type == "response.output_text.delta"]) > 2
        for place, event in enumerate(live):
            after = event.sequence_number
            rest = await read(await other.responses.retrieve(id, stream=True, starting_after=after))
            assert not rest or rest[-1].response.output_text == TEXT
            assert [each.sequence_number for each in [*live[: place + 1], *rest]] == sorted(
                {each.sequence_number for each in [*live[: place + 1], *rest]}
            )
            assert [each.type for each in rest][-1:] == (
                ["response.completed"] if place < len(live) - 1 else []
            )
        with_helper = other.responses.stream(response_id=id, starting_after=live[5].sequence_number)
        async with with_helper as helped:
            await read(helped)
            assert (await helped.get_final_response()).output_text == TEXT


async def test_background_cancel_and_delete(scripted: Scripted, serve_agents: Serve) -> None:
    slowly = says(TEXT, chunk_delay=0.3)
    agent = scripted_agent(
        scripted(lambda request: slowly if "Slowly" in str(request.body) else says("Done."))
    )
    async with serve_agents(agent) as served, client_of(served) as client:
        queued = await client.responses.create(model="tested", input="Hi", background=True)
        assert queued.status == "queued"
        assert (await ended(client, queued.id)).output_text == "Done."
        with pytest.raises(openai.BadRequestError, match="has ended: it is completed"):
            await client.responses.cancel(queued.id)
        await client.responses.delete(queued.id)
        slow = await client.responses.create(
            model="tested", input="Slowly", background=True, stream=True
        )
        events = []
        async for event in slow:
            events.append(event)
            if event.type == "response.output_item.added":
                with pytest.raises(openai.BadRequestError, match="is open: cancel it first"):
                    await client.responses.delete(events[0].response.id)
                assert (await client.responses.cancel(events[0].response.id)).status == "cancelled"
        assert [each.type for each in events[-2:]] == [
            "response.output_item.done",
            "response.failed",
        ]
        assert events[-1].response.status == "cancelled"
        assert (await client.responses.cancel(events[0].response.id)).status == "cancelled"


URL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="
PICTURE = {"type": "image_url", "image_url": {"url": URL, "detail": "low"}}
SEEN: Any = {
    "role": "user",
    "content": [
        {"type": "input_text", "text": "C"},
        {"type": "input_image", "image_url": URL, "detail": "low"},
    ],
}


async def test_conversations_are_sessions(scripted: Scripted, serve_agents: Serve) -> None:
    model = scripted(in_turn("One.", "Two.", "Three.", "Four.", "Five."))
    async with serve_agents(scripted_agent(model)) as served, client_of(served) as client:
        talk = await client.conversations.create(metadata={"topic": "test"})
        assert talk.metadata == {"topic": "test"}
        first = await client.responses.create(model="tested", input="A", conversation=talk.id)
        assert (first.output_text, first.conversation.id) == ("One.", talk.id)  # type: ignore[union-attr]
        assert first.id.endswith(f"{talk.id}/1")
        second = await client.responses.create(
            model="tested", input="B", previous_response_id=first.id
        )
        assert (second.output_text, second.id.endswith("/2")) == ("Two.", True)
        branch = await client.responses.create(
            model="tested", input=[SEEN], previous_response_id=first.id
        )
        assert (branch.output_text, branch.conversation) == ("Three.", None)
        longer = await client.responses.create(
            model="tested", input="D", previous_response_id=branch.id
        )
        assert (longer.output_text, longer.previous_response_id) == ("Four.", branch.id)
        assert [each["content"] for each in model.requests[-1].body["messages"]] == [
            *("A", "One.", [{"type": "text", "text": "C"}, PICTURE], "Three.", "D")
        ]
        shown = await client.responses.create(model="tested", input=[SEEN], conversation=talk.id)
        assert (shown.output_text, shown.id.endswith("/3")) == ("Five.", True)
        assert model.requests[-1].body["messages"][-1]["content"][1] == PICTURE


async def test_a_clients_own_retry_starts_nothing_twice(
    scripted: Scripted, serve_agents: Serve
) -> None:
    model = scripted(in_turn("One.", "Two.", "Three.", "Four."))
    async with serve_agents(scripted_agent(model)) as served, client_of(served) as client:

        async def ask(more: JsonObject, **headers: str) -> str:
            answer = await client.responses.create(
                model="tested", input="Hi", extra_headers=headers, **more
            )
            return answer.output_text

        again = {"x-stainless-retry-count": "1"}
        assert await ask({}) == "One."
        key = {"Idempotency-Key": served.gateway.task_queue}
        assert await asyncio.gather(ask({}, **key), ask({}, **key)) == ["Two.", "Two."]
        talk = {"conversation": (await client.conversations.create()).id}
        assert [await ask(talk), await ask(talk, **again), await ask(talk)] == [
            "Three.",
            "Three.",
            "Four.",
        ]
    assert len(model.requests) == 4


async def test_what_waits_is_asked_decided_and_asked_again(
    scripted: Scripted, serve_agents: Serve
) -> None:
    model = scripted([asks(call("pay", euros=3)), says("It is paid.")])
    async with (
        serve_agents(scripted_agent(model, [PAY]), tools={"pay": pay}) as served,
        client_of(served) as client,
    ):
        waiting = await client.responses.create(model="tested", input="Pay")
        assert (waiting.status, kinds(waiting)) == ("completed", ["mcp_approval_request"])
        request = waiting.output[0]
        assert (request.name, request.arguments) == ("pay", '{"euros": 3}')  # type: ignore[union-attr]
        again = await client.responses.create(
            model="tested", input=[], previous_response_id=waiting.id
        )
        assert (again.id, again.output[0].id) == (waiting.id, request.id)
        decision: Any = {
            "type": "mcp_approval_response",
            "approval_request_id": request.id,
            "approve": True,
        }
        history: Any = [{"role": "user", "content": "Pay"}, request.to_dict(), decision]
        paid = await client.responses.create(model="tested", input=history)
        assert (paid.output_text, kinds(paid)) == ("It is paid.", ["mcp_call", "message"])
        assert paid.output[0].approval_request_id == request.id  # type: ignore[union-attr]
        repeated = await client.responses.create(
            model="tested", input=[decision], previous_response_id=waiting.id
        )
        assert repeated.id == paid.id
        assert (await client.responses.retrieve(waiting.id)).output == waiting.output
        assert (await client.responses.retrieve(paid.id)).output_text == "It is paid."
        with pytest.raises(openai.BadRequestError, match="is not an `approval_request_id`"):
            await client.responses.create(
                model="tested", input=[{**decision, "approval_request_id": "mcpr_x"}]
            )
    assert len(model.requests) == 2


async def test_a_background_response_lasts_while_a_person_decides(
    scripted: Scripted, serve_agents: Serve
) -> None:
    model = scripted([asks(call("ask_user", question="Which?")), says("Blue it is.")])
    agent = scripted_agent(model, [{"name": "ask_user", "kind": "builtin"}])
    async with serve_agents(agent) as served, client_of(served) as client:
        asked = await client.responses.create(
            model="tested", input="Paint", background=True, stream=True
        )
        events = []
        async for event in asked:
            events.append(event)
            if (
                event.type == "response.output_item.done"
                and event.item.type == "message"
                and len(events) < 20
            ):
                id = events[0].response.id
                shown = await client.responses.retrieve(id)
                assert (shown.status, shown.output_text) == ("in_progress", "Which?")
                answer = await client.responses.create(
                    model="tested", input="Blue", previous_response_id=id
                )
                assert (answer.output_text, answer.id == id) == ("Blue it is.", False)
        assert events[-1].type == "response.completed"
        assert events[-1].response.output_text == "Which?Blue it is."


async def test_items_that_are_referred_to_stand_for_their_runs_conversation(
    scripted: Scripted, serve_agents: Serve
) -> None:
    model = scripted([says("Blue."), asks(call("echo", text="x")), says("Seen."), says("Red.")])
    async with (
        serve_agents(scripted_agent(model, ["echo"]), tools={"echo": echo}) as served,
        client_of(served) as client,
    ):
        history: list[Any] = [{"role": "developer", "content": "Be brief."}]
        for asked in "Which?", "Sure?", "Another?":
            history.append({"role": "user", "content": [{"type": "input_text", "text": asked}]})
            answer = await client.responses.create(model="tested", input=history)
            history += [{"type": "item_reference", "id": each.id} for each in answer.output]
    assert answer.output_text == "Red."
    said = [
        (each["role"], each["content"])
        for each in model.requests[-1].body["messages"]
        if each.get("content")
    ]
    users = [content for role, content in said if role == "user"]
    assert users == ["Be brief.", "Which?", "Sure?", "Another?"]
    assert [content for role, content in said if role == "assistant"] == ["Blue.", "Seen."]


async def test_failures_have_one_end(scripted: Scripted, serve_agents: Serve) -> None:
    model = scripted([asks(call("echo", text="x"))] * 20)
    agent = scripted_agent(model, ["echo"], metadata={"perdure": {"maxIterations": 2}})
    async with serve_agents(agent, tools={"echo": echo}) as served, client_of(served) as client:
        with pytest.raises(openai.UnprocessableEntityError) as failed:
            await client.responses.create(model="tested", input="Hi")
        assert failed.value.code == "max_iterations"
        events = await read(await client.responses.create(model="tested", input="Hi", stream=True))
        ends = [
            each
            for each in events
            if each.type in ("response.failed", "response.completed", "error")
        ]
        assert [each.response.error.code for each in ends] == ["max_iterations"]
        background = await client.responses.create(model="tested", input="Hi", background=True)
        assert (await ended(client, background.id)).status == "failed"
        wrong: list[tuple[JsonObject, str]] = [
            ({"input": "x", "model": "none"}, "There is no agent"),
            ({"input": []}, "expected a message"),
            ({"input": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "input_audio"),
            (
                {"input": [{"type": "item_reference", "id": "msg_x1_2"}]},
                "not an item of a response here",
            ),
            (
                {"input": [{"type": "item_reference", "id": "msg_nzxw4zi_2"}]},
                "There is no run 'none'",
            ),
            ({"input": "x", "previous_response_id": "resp_x"}, "There is no response"),
            ({"input": "x", "previous_response_id": "resp_0_none"}, "There is no run"),
            (
                {"input": "x", "conversation": "none", "previous_response_id": "resp_0_x"},
                "not both",
            ),
            ({"input": "x", "metadata": {"a": 1}}, "metadata"),
        ]
        for body, words in wrong:
            with pytest.raises(openai.APIStatusError, match=words) as refused:
                await client.responses.create(**{"model": "tested", **body})
            assert refused.value.status_code in (400, 404)
        for number in ("-1", "x", "9" * 30, "0" * 20 + "9" * 5000):
            with pytest.raises(openai.BadRequestError, match="starting_after"):
                await client.get(
                    f"/responses/{background.id}?stream=true&starting_after={number}",
                    cast_to=object,
                )
