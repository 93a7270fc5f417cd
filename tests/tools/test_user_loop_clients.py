"""The clients of the user live on one event loop: the caller's in `invoke_agent_async`, the tools'
in a worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from openai import AsyncOpenAI
from temporalio.client import Client

import perdure
from perdure.agents import Agent
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.providers import clear_connections, register_connection
from perdure.testing import asks, call, says

from ..support.agents import Scripted, declared
from ..support.stage import Stage

Loops = dict[str, asyncio.AbstractEventLoop]


class Noting(AsyncOpenAI):
    """A client that notes on which event loop it is used."""

    loops: Loops

    async def post(self, *arguments: Any, **named: Any) -> Any:
        self.loops["client"] = asyncio.get_running_loop()
        return await super().post(*arguments, **named)


@pytest.fixture
def registered(scripted: Scripted) -> Iterator[tuple[Agent, Noting]]:
    """An agent whose model is reached through a registered client."""
    model = scripted(
        [[asks(call("look")), asks(call("look"))], [says("done", chunk_delay=0.01), says("done")]]
    )
    client = Noting(api_key="none", base_url=model.openai_endpoint, max_retries=0)
    client.loops = {}
    register_connection("mine", client)
    connection = {"kind": "reference", "name": "mine"}
    yield (
        Agent.model_validate(
            {
                "name": "a",
                "model": {"id": "m", "provider": "openai", "connection": connection},
                "tools": [declared("look")],
            }
        ),
        client,
    )
    clear_connections()


def noting(model: Noting) -> tuple[Callable[..., Any], Guardrails]:
    """A tool and guardrails that note where they are; the last of them closes the client."""
    loops = model.loops

    async def look(text: str = "") -> str:
        loops["tool"] = asyncio.get_running_loop()
        return "seen"

    async def judge(name: str, arguments: JsonObject) -> GuardrailResult:
        loops["guardrail"] = asyncio.get_running_loop()
        return GuardrailResult(allowed=True)

    async def close(message: Message) -> GuardrailResult:
        if message.text == "done":
            await model.close()
        return GuardrailResult(allowed=True)

    return look, Guardrails(tool=judge, output=close)


async def test_a_call_uses_them_on_the_loop_of_its_caller(
    client: Client, registered: tuple[Agent, Noting]
) -> None:
    agent, model = registered
    look, guardrails = noting(model)
    options: JsonObject = {"client": client, "guardrails": guardrails}
    assert await perdure.invoke_agent_async(agent, {}, {"look": look}, **options) == "done"
    assert model.loops == dict.fromkeys(("client", "tool", "guardrail"), asyncio.get_running_loop())


async def test_a_worker_uses_them_on_the_loop_of_its_tools(
    stage: Stage, registered: tuple[Agent, Noting]
) -> None:
    agent, model = registered
    look, guardrails = noting(model)
    async with stage.worker({"look": look}, guardrails={"noting": guardrails}, tool_loop=None):
        run = await stage.start(agent, guardrails="noting", stream=True)
        assert (await run.result()).output == "done"
    assert set(model.loops) == {"client", "tool", "guardrail"}
    (own,) = set(model.loops.values())
    assert own is not asyncio.get_running_loop()
    assert own.is_closed()
