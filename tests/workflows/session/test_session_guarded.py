"""What no input guardrail has let through goes out of a session with what it refuses, however the
turn has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client

from perdure import GuardrailResult, Guardrails
from perdure.errors import GuardrailError
from perdure.messages import Message
from perdure.session_conversation import WITHHELD
from tests.support.agents import Scripted
from tests.support.gates import Gate
from tests.support.sessions import SessionStage, setup_of, talk


class NoSecret:
    """An input guardrail that looks at the whole conversation; the first time, it waits for the
    gate.
    """

    def __init__(self) -> None:
        self.gate = Gate()

    async def __call__(self, messages: list[Message]) -> GuardrailResult:
        if not self.gate.entered:
            await self.gate()
        is_told = any("secret" in message.text for message in messages)
        return GuardrailResult(allowed=not is_told, reason="a secret" if is_told else None)


@pytest.fixture
async def session(
    client: Client, task_queue: str, scripted: Scripted
) -> AsyncIterator[SessionStage]:
    stage = SessionStage(client, task_queue, scripted(talk))
    yield stage
    await stage.replay()


async def is_refused(session: SessionStage, turn: int) -> None:
    with pytest.raises(GuardrailError):
        await session.run(turn).result()
    await session.idle()


async def test_a_turn_that_ends_while_the_guardrail_thinks(session: SessionStage) -> None:
    guardrail = NoSecret()
    async with session.worker(guardrails={"discreet": Guardrails(input=guardrail)}):
        await session.start(setup_of(session.agent, guardrails="discreet"))
        await session.send("my secret")
        await asyncio.wait_for(guardrail.gate.reached.wait(), 20)
        await session.client.get_workflow_handle(f"{session.id}/1").terminate()
        await session.idle()
        guardrail.gate.open.set()
        await session.send("two")
        await is_refused(session, 2)
        assert await session.said("three") == "re: three"
        assert await session.conversation() == ["s: You are helpful.", "u: three", "a: re: three"]


async def test_a_result_that_a_limit_kept_from_the_guardrail(session: SessionStage) -> None:
    guardrail = NoSecret()
    guardrail.gate.open.set()
    session.gate.gives = "a secret"
    session.gate.open.set()
    async with session.worker(guardrails={"discreet": Guardrails(input=guardrail)}):
        await session.start(
            setup_of(session.agent, guardrails="discreet", max_iterations=1, on_limit="partial")
        )
        assert "unable" in await session.said("hold on")
        await session.idle()
        await session.send("two")
        await is_refused(session, 2)
        assert await session.said("three") == "re: three"
        assert await session.conversation() == [
            *(
                "s: You are helpful.",
                "u: hold on",
                "a: ",
                f"t: {WITHHELD[:40]}",
                "u: three",
                "a: re: three",
            ),
        ]


async def test_a_text_that_trimming_has_put_into_the_summary(session: SessionStage) -> None:
    guardrail = NoSecret()
    guardrail.gate.open.set()
    async with session.worker(guardrails={"discreet": Guardrails(input=guardrail)}):
        await session.start(setup_of(session.agent, guardrails="discreet", context_budget=300))
        await session.send("hold on")
        await asyncio.wait_for(session.gate.reached.wait(), 20)
        for text in ("my secret", *("x" * 70 for _ in range(6))):
            await session.send(text)
        session.gate.open.set()
        await is_refused(session, 1)
        assert await session.said("two") == "re: two"
        assert await session.conversation() == ["s: You are helpful.", "u: two", "a: re: two"]


async def test_a_message_that_comes_later_in_a_turn_is_refused_alone(session: SessionStage) -> None:
    guardrail = NoSecret()
    guardrail.gate.open.set()
    async with session.worker(guardrails={"discreet": Guardrails(input=guardrail)}):
        await session.start(setup_of(session.agent, guardrails="discreet"))
        await session.send("hold on")
        await asyncio.wait_for(session.gate.reached.wait(), 20)
        await session.send("my secret")
        session.gate.open.set()
        await is_refused(session, 1)
        assert await session.said("two") == "re: two"
        assert await session.conversation() == [
            *("s: You are helpful.", "u: hold on", "a: ", f"t: {WITHHELD[:40]}"),
            *("u: two", "a: re: two"),
        ]
