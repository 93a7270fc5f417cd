"""`invoke_agent(approve=…, answer=…)`: the caller's functions are asked about what waits for a
person.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

import perdure
from perdure.client import get_run
from perdure.client.persons import DENIED, decision_of
from perdure.testing import ScriptedModel, ScriptedReply, asks, says
from perdure.testing.script import ScriptedRequest
from perdure.tool_calls import Approval, PendingApproval

from ..support.agents import tool_texts

AGENT = """---
name: cashier
model:
  id: gpt-4o
  connection: {kind: key, endpoint: "${env:TEST_ENDPOINT}", apiKey: "${env:TEST_KEY}"}
tools:
  - {name: pay, kind: function, perdure: {approval: always}}
  - {name: ask_user, kind: builtin}
---
Pay.
"""
CALLER = """---
name: caller
model:
  id: gpt-4o
  connection: {kind: key, endpoint: "${env:TEST_ENDPOINT}", apiKey: "${env:TEST_KEY}"}
tools:
  - {name: cashier, kind: prompty, path: cashier.prompty, mode: agentic}
---
Have it paid.
"""
PAY = asks("pay", euros=5)
DONE = says("Done.")


def pay(euros: int) -> str:
    return f"paid {euros}"


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    (tmp_path / "cashier.prompty").write_text(AGENT)
    (tmp_path / "caller.prompty").write_text(CALLER)
    return tmp_path / "cashier.prompty"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ScriptedModel]]:
    models: list[ScriptedModel] = []

    def play(*replies: Any, cashier: Sequence[ScriptedReply] = ()) -> ScriptedModel:
        """A model that says `replies`, but `cashier` to the cashier if there are any."""

        def reply(request: ScriptedRequest) -> ScriptedReply:
            is_cashier = cashier and request.messages[0].text == "Pay."
            return (cashier if is_cashier else replies)[request.step]

        models.append(ScriptedModel(reply))
        model = models[-1].__enter__()
        monkeypatch.setenv("TEST_ENDPOINT", model.openai_endpoint)
        monkeypatch.setenv("TEST_KEY", "k")
        return model

    yield play
    for model in models:
        model.__exit__(None, None, None)


async def invoke(client: Client, agent: Path, **given: Any) -> Any:
    return await perdure.invoke_agent_async(agent, tools=[pay], client=client, **given)


@pytest.mark.parametrize(
    ("value", "decision"),
    [
        (True, Approval(approved=True)),
        ({"euros": 3}, Approval(approved=True, arguments={"euros": 3})),
        (False, Approval(approved=False, reason=DENIED)),
        ("too much", Approval(approved=False, reason="too much")),
        (None, None),
    ],
)
def test_what_approve_returns_decides(value: Any, decision: Approval | None) -> None:
    pending = PendingApproval(call_id="c", name="pay", arguments={"euros": 5}, iteration=1)
    assert decision_of(value, pending) == decision


@pytest.mark.parametrize(
    ("decision", "result"),
    [
        ({"francs": 3}, "Tool denied: the decision was not accepted"),
        (3, "Tool denied: no decision was possible: TypeError"),
    ],
)
async def test_what_is_not_a_decision_denies(
    client: Client, agent: Path, script: Callable[..., ScriptedModel], decision: Any, result: str
) -> None:
    model = script(PAY, DONE)
    assert await invoke(client, agent, approve=lambda pending: decision) == "Done."
    assert model.requests[-1].messages[-1].text.startswith(result)


async def test_async_functions_are_called_on_the_callers_loop(
    client: Client, agent: Path, script: Callable[..., ScriptedModel]
) -> None:
    model, here = (
        script(PAY, asks("ask_user", question="Which?", choices=["a", "b"]), DONE),
        asyncio.get_running_loop(),
    )

    async def approve(pending: PendingApproval) -> bool:
        return asyncio.get_running_loop() is here

    async def answer(pending: PendingApproval) -> str:
        return f"{pending.question} {pending.choices[1]}"

    assert await invoke(client, agent, approve=approve, answer=answer) == "Done."
    assert tool_texts(model.requests[-1].messages) == [
        "paid 5",
        "Which? b",
    ]


async def test_a_called_agents_call_is_asked_about_too(
    client: Client, agent: Path, script: Callable[..., ScriptedModel]
) -> None:
    model = script(asks("cashier"), DONE, cashier=[PAY, says("Paid.")])
    assert (
        await invoke(client, agent.parent / "caller.prompty", approve=lambda pending: True)
        == "Done."
    )
    assert model.requests[2].messages[-1].text == "paid 5"


async def test_where_nobody_can_be_asked_the_log_has_the_command(
    client: Client,
    agent: Path,
    script: Callable[..., ScriptedModel],
    caplog: pytest.LogCaptureFixture,
) -> None:
    script(PAY, DONE)
    caplog.set_level(logging.WARNING, "perdure")
    calling = asyncio.create_task(invoke(client, agent, id="cashier-1"))
    async with asyncio.timeout(20):
        while "perdure approve" not in caplog.text:
            await asyncio.sleep(0.01)
    [said] = [
        record.getMessage()
        for record in caplog.records
        if "waits until a person" in record.getMessage()
    ]
    assert 'pay with {"euros": 5}' in said
    assert "invoke_agent(approve=…)" in said
    [command] = [
        line.strip() for line in said.splitlines() if line.strip().startswith("perdure approve")
    ]
    _, _, run, call, _, digest = shlex.split(command)
    await get_run(client, run).approve(call, digest=digest)
    assert await calling == "Done."


async def test_none_leaves_the_call_to_somebody_else(
    client: Client,
    agent: Path,
    script: Callable[..., ScriptedModel],
    caplog: pytest.LogCaptureFixture,
) -> None:
    model, asked = script(PAY, DONE), asyncio.Event()
    loop = asyncio.get_running_loop()

    def approve(pending: PendingApproval) -> None:
        loop.call_soon_threadsafe(asked.set)

    calling = asyncio.create_task(invoke(client, agent, id="cashier-2", approve=approve))
    await asyncio.wait_for(asked.wait(), 20)
    [pending] = (await get_run(client, "cashier-2").status()).pending_approvals
    await get_run(client, "cashier-2").deny(pending.call_id, "not today")
    assert await calling == "Done."
    assert model.requests[-1].messages[-1].text == "Tool denied: not today"
