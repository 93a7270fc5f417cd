"""`perdure check`: which open runs could not go on with other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import perdure
from perdure import Guardrails, RunOptions
from perdure.cli.check import Need, breaks, later_needs
from perdure.cli.user_code import load_user_code
from perdure.client import session
from perdure.client.run_input import new_run
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.testing import asks, call, says
from perdure.tools import Asking, KindCall, Offering, ToolKind
from perdure.tools.dispatch import ToolBox

from ..support.agents import Scripted, scripted_agent
from ..support.command_line import Cli
from ..support.stage import Stage
from ..support.waiting import asked

PAY = {"name": "pay", "kind": "function", "perdure": {"approval": "always"}}
NEW = """
from perdure import tool
@tool(idempotent=False)
def pay(cents: int) -> str:
    "Pays."
    return "paid"
@tool(reconcile=lambda arguments, key: None)
def refund(cents: int) -> None:
    "Refunds."
@tool(idempotent=True)
def count() -> None:
    "Counts."
@tool
def look(text: str = "") -> str:
    "Looks."
    return "seen"
"""


ALL = """
from perdure import Guardrails, tool
@tool
def pay(euros: float) -> str:
    "Pays."
    return "paid"
@tool
def look(text: str = "") -> str:
    "Looks."
    return "seen"
def short(messages):
    return "much was said"
careful = Guardrails()
"""


def pay(euros: float) -> str:
    return "paid"


def look(text: str = "") -> str:
    return "seen"


async def test_runs_that_would_break_are_named(
    stage: Stage, scripted: Scripted, cli: Cli, address: str, tmp_path: Path
) -> None:
    model = scripted([asks(call("pay", euros=1.0))] * 2)
    async with stage.worker({"pay": pay, "look": look, "find": look}):
        one = await stage.start(scripted_agent(model, [PAY, "look"]), id="pays")
        two = await stage.start(scripted_agent(model, [PAY, "find"]), id="finds")
        for run in (one, two):
            await asked(run)
        (tmp_path / "new.py").write_text(NEW)
        where = (
            "--address",
            address,
            "check",
            "--json",
            "--task-queue",
            stage.task_queue,
            "--tools",
        )
        told = await cli(*where, str(tmp_path / "new.py"))
        assert told.code == 1
        answer = json.loads(told.stdout)
        broken = [(each["run"], each["why"], each["tool"]) for each in answer["breaks"]]
        assert answer["openRuns"] == 2
        assert answer["undeclared"] == ["look"]
        assert sorted(broken) == [
            ("finds", "missing", "find"),
            ("finds", "signature", "pay"),
            ("pays", "signature", "pay"),
        ]
        for run in (one, two):
            await run.cancel()


class Noting(ToolKind):
    """Takes notes."""

    async def offer(self, tool: Any, asking: Asking) -> list[Offering]:
        return [Offering(name="note", description="Takes a note.", parameters={"type": "object"})]

    async def execute(self, call: KindCall) -> str:
        return "noted"


def shorten(messages: list[Message]) -> str:
    return "much was said"


async def test_kinds_guardrails_compactors_and_sessions(
    stage: Stage, scripted: Scripted, cli: Cli, address: str, tmp_path: Path
) -> None:
    model = scripted([asks(call("pay", euros=1.0)), says("hello")])
    agent = scripted_agent(model, [PAY, {"name": "notes", "kind": "noting"}])
    needs: JsonObject = {
        "guardrails": "careful",
        "compactor": "short",
        "context_budget": 100_000,
    }
    has: JsonObject = {
        "tool_kinds": {"noting": Noting()},
        "guardrails": {"careful": Guardrails()},
    }
    async with stage.worker({"pay": pay, "look": look}, **has, compactors={"short": shorten}):
        run = await stage.start(agent, id="needy", **needs)
        await asked(run)
        talk = session(
            stage.client, scripted_agent(model, ["look"]), "talks", task_queue=stage.task_queue
        )
        await (await talk.send("hi")).result()
        (tmp_path / "all.py").write_text(ALL)
        (tmp_path / "less.py").write_text(ALL.replace("def look", "def glance"))
        where = (
            "--address",
            address,
            "check",
            "--json",
            "--task-queue",
            stage.task_queue,
            "--tools",
        )
        told = await cli(*where, str(tmp_path / "less.py"))
        assert told.code == 1, told.stderr
        assert sorted(
            (each["run"], each["why"], each["tool"]) for each in json.loads(told.stdout)["breaks"]
        ) == [
            ("needy", "compactor", ""),
            ("needy", "guardrails", ""),
            ("needy", "kind", "notes"),
            ("talks", "missing", "look"),
        ]
        code = str(tmp_path / "all.py")
        told = await cli(
            *where, code, "--guardrails", f"{code}:careful", "--compactor", f"{code}:short"
        )
        assert [each["why"] for each in json.loads(told.stdout)["breaks"]] == ["kind"], told.stdout
        await run.cancel()
        await talk.close()


def test_the_agents_that_a_run_may_hand_over_to_need_their_tools_and_guardrails() -> None:
    careful = {"perdure": {"guardrails": "careful"}}
    billing = perdure.agent(
        "openai/b", name="billing", tools=[look], handoffs=["triage"], metadata=careful
    )
    triage = perdure.agent("openai/t", name="triage", tools=[pay], handoffs=[billing])
    later = later_needs("run-1", new_run(triage, {"question": "?"}, None, None))
    found = [
        each
        for need in later
        for each in breaks(need, load_user_code({}), ToolBox({}, registered=False))
    ]
    assert [each.text for each in found] == [
        "the tool 'look' is missing",
        "the guardrails 'careful' are missing",
    ]


def test_functions_that_a_run_names_need_their_decorator() -> None:
    options = RunOptions(instructions_by="about", prepare_tools="first")
    need = Need("run-1", perdure.agent("openai/t"), {}, options)
    assert [
        (each.why, each.text)
        for each in breaks(need, load_user_code({}), ToolBox({}, registered=False))
    ] == [
        ("instructions", "no function 'about' of --tools has the decorator @perdure.instructions"),
        (
            "prepare_tools",
            "no function 'first' of --tools has the decorator @perdure.prepare_tools",
        ),
    ]
