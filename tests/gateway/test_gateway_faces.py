"""What holds on each face of the gateway, in its own form: text as it is made, held runs, denials
of guardrails.
"""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from perdure import GuardrailResult, Guardrails
from perdure.testing import ScriptedReply, asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.faces import FACES
from ..support.gates import Gate
from .conftest import Serve

WAYS = [
    (name, stream)
    for name, face in FACES.items()
    for stream in (True, False)
    if stream or face.answers_whole
]
BEFORE, ANSWER = "I look it up. ", "It is the seventh letter."


@pytest.mark.parametrize("name", FACES)
async def test_text_comes_as_it_is_made_also_before_a_tool_is_called(
    scripted: Scripted, serve_agents: Serve, name: str
) -> None:
    """The tool waits until what was said before the call has come."""
    model = scripted([asks(call("look"), text=BEFORE), says(ANSWER, chunk_delay=0.1)])
    agent, look, said = scripted_agent(model, ["look"]), Gate("g"), list[str]()
    async with (
        serve_agents(agent, tools={"look": look}) as served,
        httpx2.AsyncClient(base_url=served.url) as http,
    ):
        async for each in FACES[name].pieces(http, served.gateway.task_queue):
            said.append(each)
            look.open.set()
    whole = "".join(said)
    assert whole.startswith(BEFORE.strip()), whole
    assert whole.endswith(ANSWER)
    later = [each for each in said if each.strip() and each.strip() in ANSWER]
    assert len(later) > 1, "the answer came in one piece"


async def test_a_held_run_is_an_answer(scripted: Scripted, serve_agents: Serve) -> None:
    """On each face, streamed or not; each says how the run goes on."""
    agent = scripted_agent(scripted(lambda request: ScriptedReply(status=401)))
    async with (
        serve_agents(agent, held_seconds=5.0) as served,
        httpx2.AsyncClient(base_url=served.url) as http,
    ):

        async def ask(name: str, stream: bool) -> None:
            session = f"{served.gateway.task_queue}-{name}-{stream}"
            told = (await http.post(**FACES[name].asked(session, stream=stream))).text
            assert f"the run {session}/1 is held (credentials): " in told, (name, stream, told)
            assert f"perdure go-on {session}/1" in told, (name, stream, told)
            if name in ("octopus", "kaos"):  # Behind a turn that is held.
                told = (await http.post(**FACES[name].asked(session, stream=stream))).text
                assert f"the run {session}/1 is held (credentials): " in told, (name, told)
                assert told.find("event: error") <= told.find("event: turn_end")
            await served.gateway.client.get_workflow_handle(session).terminate()

        await asyncio.gather(*(ask(*each) for each in WAYS))


async def test_a_guardrail_s_denial_is_an_error_with_its_kind(
    scripted: Scripted, serve_agents: Serve
) -> None:
    denies = Guardrails(input=lambda messages: GuardrailResult(allowed=False, reason="not today"))
    async with (
        serve_agents(
            scripted_agent(scripted([])),
            guardrails={"house": denies},
            hooks={"guardrails": "house"},
        ) as served,
        httpx2.AsyncClient(base_url=served.url) as http,
    ):

        async def ask(name: str, stream: bool) -> None:
            session = f"{served.gateway.task_queue}-{name}-{stream}"
            told = (await http.post(**FACES[name].asked(session, stream=stream))).text
            assert "not today" in told, (name, stream, told)
            assert "guardrail_denied" in told, (name, stream, told)

        await asyncio.gather(*(ask(*each) for each in WAYS))
