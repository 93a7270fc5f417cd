"""Calls of which nobody knows whether they took effect: what the model reads, and what is not
repeated unseen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from perdure import Done, NotDone, ToolContext, Unknown, tool
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.json_types import JsonObject
from perdure.messages import Message, ToolCall, ToolResult
from perdure.testing import asks, call, says
from perdure.tool_calls import Approval, ToolRequest
from perdure.tools import OutcomeUnknown

from ..support.loop_stage import Stage, written
from ..support.unknown_outcomes import FIND_OUT, MAY_HAVE, NEEDS_APPROVAL, RECONCILES, SAFE

EQUAL = "it may repeat the equal call of iteration 1, whose effect is unknown"
LOST = "Error: Tool 'pay' failed: OutcomeUnknown: the line went dead"
PAY = call("pay", euros=5)


class Bank:
    """Its `pay` does not say at first, `unsure` times, whether it has paid; then it says so."""

    def __init__(self, unsure: int = 1, **declared: Any) -> None:
        self.asked: list[tuple[float, bool]] = []
        """What it was called with: the amount, and whether it may be a repetition."""
        self.keys: list[str] = []
        self.reconciled: list[tuple[JsonObject, str]] = []
        self._unsure = unsure

        @tool(name="pay", **declared)
        async def pay(euros: float, context: ToolContext) -> str:
            self.asked.append((euros, context.may_repeat))
            self.keys.append(context.idempotency_key)
            await asyncio.sleep(0)
            if len(self.asked) <= self._unsure:
                raise OutcomeUnknown("the line went dead")
            return f"paid {euros:g}"

        self.pay = pay

    def stage(self, *script: Any, **named: Any) -> Stage:
        return Stage(*script, tools={"pay": self.pay}, **named)


def yes(request: ToolRequest) -> Approval:
    return Approval(approved=True)


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ({}, FIND_OUT),
        ({"idempotent": True}, SAFE),
        ({"idempotent": False}, NEEDS_APPROVAL),
        ({"reconcile": lambda arguments, key: NotDone()}, RECONCILES),
    ],
)
async def test_the_result_says_so_and_how_to_find_out(declared: JsonObject, told: str) -> None:
    stage = Bank(**declared).stage(asks(PAY), says("done"))
    await stage.play()
    assert stage.results() == [LOST + told]
    assert stage.data("tool_result") == [
        {"name": "pay", "result": LOST + told, "outcomeUnknown": True}
    ]
    [message] = [each for each in stage.messages if each.role == "tool"]
    assert message.metadata["outcome_unknown"].keys() == {"same", "key"}


@pytest.mark.parametrize(
    "failure", [ConnectionRefusedError("refused"), ValueError("no such account")]
)
async def test_what_has_certainly_not_happened_is_not_told_so(failure: Exception) -> None:
    def pay() -> None:
        raise failure

    stage = Stage(
        asks("pay"), asks("pay"), says("done"), tools={"pay": tool(idempotent=False)(pay)}
    )
    await stage.play()
    assert len(stage.results()) == 2
    assert MAY_HAVE not in "".join(stage.results())
    assert stage.data("permission_requested") == []
    assert stage.run._state.unknown_calls == []


async def test_the_note_is_not_cut_off_with_a_long_text() -> None:
    def work() -> ToolResult:
        return ToolResult.failure("x" * 100_000, kind="odd", outcome_unknown=True)

    stage = Stage(asks("work"), says("done"), tools={"work": work}, max_result=1000)
    await stage.play()
    assert stage.results()[0].endswith(FIND_OUT)


async def test_an_idempotent_tool_knows_that_it_may_repeat_a_call() -> None:
    bank = Bank()
    stage = bank.stage(asks(PAY), asks(call("pay", euros=6)), asks(PAY), says("done"))
    await stage.play()
    assert bank.asked == [(5, False), (6, False), (5, True)]
    assert stage.results()[1:] == ["paid 6", "paid 5"]
    assert len(set(bank.keys)) == 3


@pytest.mark.parametrize("again", ['{"euros": 5}', '{"\\u0065uros": 5.0}'])
@pytest.mark.parametrize("approved", [True, False])
async def test_one_that_is_not_idempotent_needs_an_approval(again: str, approved: bool) -> None:
    asked: list[ToolRequest] = []

    def approve(request: ToolRequest) -> Approval:
        asked.append(request)
        return Approval(approved=approved, reason=None if approved else "look at the account first")

    bank = Bank(idempotent=False)
    stage = bank.stage(asks(PAY), asks(written("pay", again)), says("done"), approve=approve)
    await stage.play()
    assert len(asked) == 1
    assert [each["reason"] for each in stage.data("permission_requested")] == [EQUAL]
    assert bank.asked[1:] == ([(5, True)] if approved else [])
    assert stage.results()[1] == (
        "paid 5" if approved else "Tool denied: look at the account first"
    )


Reconcile = Callable[..., Any]


@pytest.mark.parametrize(
    ("answer", "executions", "results", "reason"),
    [
        (Done("receipt 17"), 1, ["receipt 17"], None),
        (NotDone(), 2, ["paid 5"], None),
        (Unknown(), 2, ["paid 5"], "it gives no reason"),
        (Unknown("the ledger is closed"), 2, ["paid 5"], "the ledger is closed"),
        (OSError("no ledger"), 2, ["paid 5"], "OSError: no ledger"),
        (
            Done,
            2,
            ["paid 5"],
            "TypeError: expected Done(result), NotDone() or Unknown(), got <class",
        ),
        (TimeoutError("hang"), 2, ["paid 5"], "no answer within 0.05 s"),
    ],
    ids=repr,
)
async def test_a_tool_that_can_find_out(
    answer: Any, executions: int, results: list[str], reason: str | None
) -> None:
    async def reconcile(arguments: JsonObject, key: str, context: ToolContext) -> Any:
        bank.reconciled.append((arguments, key))
        assert (context.tool, context.idempotency_key) == ("pay", key)
        if isinstance(answer, TimeoutError):
            await asyncio.sleep(60)
        if isinstance(answer, Exception):
            raise answer
        return answer

    timeout = 0.05 if isinstance(answer, TimeoutError) else None
    bank = Bank(reconcile=reconcile, timeout=timeout)
    stage = bank.stage(asks(PAY), asks(PAY), says("done"), approve=yes)
    await stage.play()
    assert bank.reconciled == [({"euros": 5}, bank.keys[0])]
    assert len(bank.asked) == executions
    assert stage.results()[1:] == results
    asked = [each["reason"] for each in stage.data("permission_requested")]
    if reason is None:
        assert asked == []
        assert stage.run._state.unknown_calls == []
        assert bank.asked[1:] in ([], [(5, False)])
    else:
        [text] = asked
        assert text.startswith(f"{EQUAL}, and its reconcile function can't tell: {reason}")
        assert bank.asked[1:] == [(5, True)]


async def test_all_earlier_ones_are_looked_into() -> None:
    answers, keys = iter([Unknown(), NotDone(), Done("the second was")]), list[str]()

    def reconcile(arguments: JsonObject, key: str) -> Any:
        keys.append(key)
        return next(answers)

    bank = Bank(unsure=2, reconcile=reconcile)
    stage = bank.stage(asks(PAY), asks(PAY), asks(PAY), says("done"), approve=yes)
    await stage.play()
    assert keys == [bank.keys[0], *bank.keys]
    assert (len(bank.asked), stage.results()[2]) == (2, "the second was")


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("idempotent", [True, False])
async def test_equal_calls_of_one_reply(parallel: bool, idempotent: bool) -> None:
    bank = Bank(idempotent=idempotent)
    calls = [
        ToolCall(id=f"c{n}", name="pay", arguments=text)
        for n, text in enumerate(['{"euros":5}', '{"euros":5.0}'])
    ]
    stage = bank.stage(asks(*calls), says("done"), parallel_tool_calls=parallel)
    await stage.play()
    if idempotent:
        assert [euros for euros, _ in bank.asked] == [5, 5]
    else:
        assert bank.asked == [(5, False)]
        assert stage.results() == [
            LOST + NEEDS_APPROVAL,
            "Tool denied: this run has no one to approve it",
        ]


async def test_equal_calls_of_one_reply_whose_outcome_is_known_are_both_executed() -> None:
    bank = Bank(unsure=0, idempotent=False)
    stage = bank.stage(
        asks(PAY, call("pay", "c2", euros=5)), says("done"), parallel_tool_calls=True
    )
    await stage.play()
    assert stage.results() == ["paid 5", "paid 5"]


async def test_calls_that_differ_run_at_once() -> None:
    under_way = 0
    most = 0

    @tool(idempotent=False)
    async def send(to: str) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1

    calls = [call("send", f"c{n}", to=str(n)) for n in range(4)]
    stage = Stage(asks(*calls), says("done"), tools={"send": send}, parallel_tool_calls=True)
    await stage.play()
    assert most == 4


@pytest.mark.parametrize("way", ["guardrail", "person"])
async def test_what_others_make_equal_is_equal(way: str) -> None:
    """A person who edits a call into one of unknown outcome is told so, and asked again."""
    seen: list[JsonObject] = []

    def approve(request: ToolRequest) -> Approval:
        seen.append(request.arguments)
        return Approval(
            approved=True, arguments={"euros": 5} if request.arguments["euros"] == 7 else None
        )

    def judge(name: str, arguments: JsonObject) -> GuardrailResult:
        is_seven = arguments["euros"] == 7
        return GuardrailResult(allowed=True, rewrite={"euros": 5} if is_seven else None)

    bank = Bank(idempotent=False, approval=lambda arguments: arguments["euros"] == 7)
    guardrails = Guardrails(tool=judge) if way == "guardrail" else None
    stage = bank.stage(
        asks(PAY), asks(call("pay", euros=7)), says("done"), approve=approve, guardrails=guardrails
    )
    await stage.play()
    assert seen == ([{"euros": 5}] if way == "guardrail" else [{"euros": 7}, {"euros": 5}])
    assert stage.data("permission_requested")[-1]["reason"] == EQUAL
    assert bank.asked == [(5, False), (5, True)]
    assert stage.results()[1].endswith("paid 5")
    assert stage.results()[1].startswith("[executed with") == (way == "person")


async def test_a_person_may_turn_a_repetition_into_another_call() -> None:
    bank = Bank(idempotent=False)
    stage = bank.stage(
        asks(PAY),
        asks(PAY),
        says("done"),
        approve=lambda request: Approval(approved=True, arguments={"euros": 1}),
    )
    await stage.play()
    assert bank.asked == [(5, False), (1, False)]


async def test_a_tool_that_always_needs_an_approval_is_reconciled_first() -> None:
    bank = Bank(needs_approval=True, reconcile=lambda arguments, key: Done("it was done"))
    stage = bank.stage(asks(PAY), asks(PAY), says("done"), approve=yes)
    await stage.play()
    assert len(stage.data("permission_requested")) == 1
    assert stage.results()[1] == "it was done"


async def test_a_later_run_of_the_conversation_asks_too() -> None:
    bank = Bank(idempotent=False)
    before = bank.stage(asks(PAY), says("unclear"))
    await before.play()
    stage = bank.stage(
        asks(PAY), says("done"), messages=[*before.messages, Message.user("Pay again")], approve=yes
    )
    await stage.play()
    reason = "it may repeat the equal call of an earlier run, whose effect is unknown"
    assert [each["reason"] for each in stage.data("permission_requested")] == [reason]
    assert bank.asked == [(5, False), (5, True)]


async def test_a_later_run_does_not_ask_about_what_was_found_out() -> None:
    bank = Bank(reconcile=lambda arguments, key: Done("receipt 17"))
    before = bank.stage(asks(PAY), asks(PAY), says("paid"))
    await before.play()
    assert (before.results()[1], len(bank.asked)) == ("receipt 17", 1)
    stage = bank.stage(
        asks(PAY), says("done"), messages=[*before.messages, Message.user("Pay once more")]
    )
    await stage.play()
    assert bank.asked == [(5, False), (5, False)]


@pytest.mark.parametrize("told", [True, "yes", {"same": 1, "key": None}, {"same": "x"}, []])
async def test_what_a_stranger_writes_into_a_conversation_asks_about_nothing(told: Any) -> None:
    odd = Message(
        role="tool",
        metadata={"tool_call_id": "c", "outcome_unknown": told, "settled_outcomes": told},
    )
    before = Message(
        role="tool", metadata={"outcome_unknown": {"same": "another call", "key": "1/0"}}
    )
    stage = Bank(0, idempotent=False).stage(
        asks(PAY), says("done"), messages=[before, odd, Message.user("Pay")]
    )
    await stage.play()
    assert stage.results()[-1] == "paid 5"


@pytest.mark.parametrize(
    "again",
    [
        {"currency": "EUR"},
        {"urgent": False},
        {"rate": 1},
        {"rate": 1, "currency": "EUR"},
        {"tags": []},
    ],
)
async def test_a_default_that_is_written_out_makes_no_other_call(again: JsonObject) -> None:
    paid = []

    @tool(name="pay", idempotent=False)
    def pay(
        euros: int,
        currency: str = "EUR",
        urgent: bool = False,
        rate: float = 1.0,
        tags: Sequence[str] = (),
    ) -> str:
        paid.append(euros)
        raise OutcomeUnknown("the line went dead")

    stage = Stage(asks(PAY), asks(call("pay", euros=5, **again)), says("done"), tools={"pay": pay})
    await stage.play()
    assert (paid, stage.results()[1]) == ([5], "Tool denied: this run has no one to approve it")
    other = Stage(
        asks(PAY), asks(call("pay", euros=5, currency="USD")), says("done"), tools={"pay": pay}
    )
    await other.play()
    assert paid == [5, 5, 5]
