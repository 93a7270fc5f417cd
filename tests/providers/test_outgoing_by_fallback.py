"""The torture table over HTTP: a run that begins at one service, goes on at another by its
fallback, and comes back.

The loop is the one of every run; each call goes through the service's SDK to a strict fake of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count

import pytest

from perdure.agents import Agent
from perdure.errors import ModelError, RunError
from perdure.messages import ImagePart, Message, ModelReply, TextPart, ToolCall, ToolResult
from perdure.options import RunOptions
from perdure.providers import ModelCallOptions, close_clients, provider_for
from perdure.providers.outgoing import with_unique_ids
from perdure.testing.in_process import InProcessRun

from ..support.fake_services import FakeServices, Turn, fake_services
from .servers import SERVERS
from .servers.strict import StrictServer
from .test_outgoing_any_server import LONG, PNG, TOOLS

NAMES = [tool["name"] for tool in TOOLS]
FIRST = [
    Turn([("look", '{"at":"a"}'), ("files.read it!", "{}")], text="Hm."),
    Turn([("look", '{"at":"a"}'), ("made.up/name", "{}"), (LONG, "")]),
    Turn(instead="declines"),
    Turn(text="Done."),
]
SECOND = [
    Turn([("look", '{"at":"b"}'), ("look", '{"at":'), (LONG, "[1]")]),
    Turn([("look", '{"at":"c"}')], text="Nearly."),
    Turn(instead="breaks"),
]
NEXT = [(one, SERVERS[(number + 1) % len(SERVERS)]) for number, one in enumerate(SERVERS)]
FAR = [(one, SERVERS[(number + 13) % len(SERVERS)]) for number, one in enumerate(SERVERS)]
_numbers = count(1)


def look(at: str) -> ToolResult:
    return ToolResult(parts=[TextPart(value=f"At {at}:"), ImagePart(source=PNG)], status="success")


@pytest.fixture(scope="module")
async def services() -> AsyncIterator[FakeServices]:
    async with fake_services() as served:
        yield served
        await close_clients()


async def moved(
    services: FakeServices, first: StrictServer, second: StrictServer, *, stream: bool
) -> list[str]:
    """Return what was refused in a run that moves from the first to the second and back, and what
    else was wrong.
    """
    number = next(_numbers)
    one = services.open(first, number, NAMES, FIRST)
    other = services.open(second, number, NAMES, SECOND)
    model = {
        **first.model(services.endpoint(first)),
        "fallback": [second.model(services.endpoint(second))],
    }
    agent = Agent.model_validate({"name": "mover", "model": model, "tools": TOOLS})
    passed: list[str] = []

    async def ask(agent: Agent, messages: list[Message]) -> ModelReply:
        return await asked(agent, messages, stream=stream)

    def on_event(type: str, data: dict[str, object]) -> None:
        if type == "model_fallback":
            passed.append(str(data["kind"]))

    run = InProcessRun(
        agent,
        [Message.system("Look."), Message.user(f"This is conversation {number}. What is there?")],
        model=ask,
        tools={"look": look, "files.read it!": lambda: "Read.", LONG: lambda: "Done."},
        options=RunOptions(max_llm_retries=1, stream=stream),
        on_event=on_event,
    )
    try:
        end = str((await run.run()).output)
    except RunError as error:
        end = str(error)
    problems = [
        f"{account.server.name}: {each}" for account in (one, other) for each in account.problems
    ]
    if (end, passed) != ("Done.", ["refusal", "server"]):
        problems.append(f"the run ends with {end!r}, after {passed}")
    return problems


async def asked(agent: Agent, messages: list[Message], *, stream: bool) -> ModelReply:
    """Return the reply, as it comes back from a history."""
    provider = provider_for(agent)
    response = await provider.call(
        agent, provider.to_request(agent, messages), ModelCallOptions(10, stream)
    )
    reply = provider.reply(agent, response)
    reply.message = with_unique_ids(reply.message, messages)
    return ModelReply.model_validate_json(reply.model_dump_json())


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_run_goes_on_at_another_service(services: FakeServices, stream: bool) -> None:
    """Each service is the first of two pairs and the second of two."""
    wrong = [
        f"{first.__name__} → {second.__name__}: {problem}"
        for first, second in [*NEXT, *FAR]
        for problem in await moved(services, first(), second(), stream=stream)
    ]
    assert not wrong


async def test_what_a_service_refuses_is_read_in_its_own_form(services: FakeServices) -> None:
    for server in (each() for each in SERVERS):
        number = next(_numbers)
        services.open(server, number, NAMES, [])
        call = ToolCall(id="abcdef123", name="look", arguments="{}")
        unanswered = [Message.user(f"In conversation {number}?"), Message.assistant("", [call])]
        with pytest.raises(
            ModelError, match=r"do not answer|have no result|are not those of"
        ) as caught:
            await asked(
                server.agent(services.endpoint(server), tools=TOOLS), unanswered, stream=True
            )
        assert (caught.value.kind, caught.value.status) == ("bad_request", server.error_form[0]), (
            server.name
        )
