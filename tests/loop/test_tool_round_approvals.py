"""Tools that need a person's approval."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.errors import GuardrailError
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.json_types import JsonObject
from perdure.testing import asks, call, says
from perdure.tool_calls import Approval, ToolRequest
from perdure.tools import tool

from ..support.loop_stage import Stage

EDITED = '[executed with arguments that a person edited: {"amount":'


@tool(name="pay", needs_approval=True)
def pay(amount: int) -> str:
    return f"paid {amount}"


def paying(**named: Any) -> Stage:
    return Stage(asks("pay", amount=5), says("Done"), tools={"pay": pay}, **named)


@pytest.mark.parametrize(
    ("approval", "result"),
    [
        (Approval(approved=True), "paid 5"),
        (Approval(approved=True, arguments={"amount": 3}), f"{EDITED} 3}}]\npaid 3"),
        (
            Approval(approved=True, arguments={"amount": "much"}),
            f"{EDITED} \"much\"}}]\nError: Invalid arguments for tool 'pay': ",
        ),
        (Approval(approved=False, reason="too much"), "Tool denied: too much"),
        (Approval(approved=False), "Tool denied: no reason was given"),
    ],
)
async def test_what_a_person_decides(approval: Approval, result: str) -> None:
    stage = paying(approve=lambda request: approval)
    await stage.play()
    assert stage.results()[0].startswith(result)
    assert stage.types()[2:6] == [
        "tool_call_start",
        "permission_requested",
        "permission_completed",
        "tool_result",
    ] or (
        stage.types()[2:7]
        == [
            "tool_call_start",
            "permission_requested",
            "permission_completed",
            "error",
            "tool_result",
        ]
    )
    [requested] = stage.data("permission_requested")
    assert (requested["name"], requested["arguments"]) == ("pay", {"amount": 5})
    assert stage.data("permission_completed") == [
        {
            "name": "pay",
            **approval.model_dump(),
            "digest": stage.data("permission_requested")[0]["digest"],
        }
    ]


async def test_the_run_waits_for_the_person() -> None:
    async def approve(request: ToolRequest) -> Approval:
        await asyncio.sleep(0.005)
        return Approval(approved=True)

    stage = paying(approve=approve)
    await stage.play()
    assert stage.results() == ["paid 5"]


async def test_nobody_there_is_a_denial() -> None:
    stage = paying()
    await stage.play()
    assert stage.results() == ["Tool denied: this run has no one to approve it"]


async def test_the_person_sees_what_the_guardrail_let_pass() -> None:
    asked: list[JsonObject] = []

    def approve(request: ToolRequest) -> Approval:
        asked.append(request.arguments)
        return Approval(approved=True)

    def cap(name: str, arguments: JsonObject) -> GuardrailResult:
        return GuardrailResult(allowed=True, rewrite={"amount": 1})

    stage = paying(approve=approve, guardrails=Guardrails(tool=cap))
    await stage.play()
    assert (asked, stage.results()) == ([{"amount": 1}], ["paid 1"])
    edited = Approval(approved=True, arguments={"amount": 3})
    stage = paying(approve=lambda request: edited, guardrails=Guardrails(tool=cap))
    await stage.play()
    assert stage.results() == ["paid 1"], "edited arguments are judged too"
    stage = paying(approve=approve, guardrails=Guardrails(tool=lambda name, arguments: False))  # type: ignore[arg-type, return-value]
    await stage.play()
    assert asked == [{"amount": 1}], "what is denied is not asked for"


async def test_a_check_that_fails_asks() -> None:
    """Whoever can't say whether a person must be asked has one asked (the run itself goes on)."""

    async def checks(arguments: JsonObject) -> Any:
        return {5: False, 6: "six", 7: None}[arguments["amount"]]

    def spend(amount: int) -> str:
        return f"spent {amount}"

    function = tool(name="spend", approval=checks)(spend)
    calls = [call("spend", f"c{amount}", amount=amount) for amount in (5, 6, 7, 8)]
    stage = Stage(
        asks(*calls),
        says("Done"),
        tools={"spend": function},
        approve=lambda request: Approval(approved=False),
    )
    await stage.play()
    seen = [data["reason"] for data in stage.data("permission_requested")]
    cannot = "the tool can't say whether it needs an approval"
    assert seen == [
        "six",
        f"{cannot}: TypeError: expected True, False or a reason, got None",
        f"{cannot}: KeyError: 8",
    ]
    assert stage.results() == ["spent 5", *["Tool denied: no reason was given"] * 3]


async def test_only_calls_can_be_approved() -> None:
    """An input or output guardrail that wants a person asked denies."""
    asking = GuardrailResult(allowed=True, ask="hm")
    with pytest.raises(GuardrailError, match="only tool calls can be approved"):
        await Stage(says("Done"), guardrails=Guardrails(output=lambda message: asking)).play()


async def test_nobody_decides_in_time() -> None:
    async def approve(request: ToolRequest) -> Approval:
        await asyncio.sleep(10)
        return Approval(approved=True)

    function = tool(name="spend", approval="always", approval_timeout=0.01)(lambda: "spent")
    stage = Stage(asks("spend"), says("Done"), tools={"spend": function}, approve=approve)
    await stage.play()
    assert stage.results() == ["Tool denied: nobody has decided within 0.01 s (approvalTimeout)"]
    [requested] = stage.data("permission_requested")
    assert requested["deadline"] == stage.effects.now() + 0.01


@tool(needs_approval=True)
def transfer(iban: str, amount_cents: int, note: str = "") -> str:
    return f"sent {amount_cents} to {iban}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {"iban": "DK1", "amount": 5, "note": ""},
            "unknown argument 'amount': did you mean 'amount_cents'?; 'amount_cents' is required "
            "(integer)",
        ),
        (
            {"iban": "DK1", "amount_cents": "5 euros"},
            "'amount_cents' must be integer, got \"5 euros\"",
        ),
    ],
)
async def test_nobody_is_asked_about_a_call_that_can_not_be_executed(
    arguments: JsonObject, said: str
) -> None:
    requests: list[ToolRequest] = []

    def approve(request: ToolRequest) -> Approval:
        requests.append(request)
        return Approval(approved=True)

    right = asks("transfer", iban="DK1", amount_cents=5, note=None)
    stage = Stage(
        asks("transfer", **arguments),
        right,
        says("Done"),
        tools={"transfer": transfer},
        approve=approve,
    )
    await stage.play()
    assert [request.arguments for request in requests] == [
        {"iban": "DK1", "amount_cents": 5, "note": None}
    ]
    assert stage.results() == [
        f"Error: Invalid arguments for tool 'transfer': {said}",
        "sent 5 to DK1",
    ]
