"""A conversation that is too long for its model: cut by the figures of the refusal, or by a share,
or the run fails.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from perdure import load_dict
from perdure.agents import Agent
from perdure.errors import ExecuteError, GuardrailError, ModelError
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.loop.overflow import CUTS
from perdure.messages import Message, ModelReply, Usage
from perdure.options import RunOptions
from perdure.testing import ScriptedReply, asks, call, says
from perdure.trimming import SUMMARY, estimate_chars

from ..support.loop_stage import Clocked

BUDGET = {"context_budget": 100_000}
TASK = Message.user("Read all of it.")


def refusal(*, limit: int | None = None, asked: int | None = None) -> ModelError:
    error = ModelError("prompt is too long", kind="context_length", provider="scripted")
    error.limit, error.asked = limit, asked
    return error


class Reader:
    """A model that calls `page` so often, and then answers; it takes at most `limit` characters."""

    def __init__(self, limit: int, rounds: int, *, has_figures: bool) -> None:
        self.limit = limit
        self.rounds = rounds
        self.has_figures = has_figures
        self.seen: list[list[Message]] = []
        self.refused = 0
        self.tokens = 0

    def __call__(self, agent: Agent, messages: list[Message]) -> ScriptedReply | ModelReply:
        size = estimate_chars(messages)
        if size > self.limit:
            self.refused += 1
            raise refusal(limit=self.limit, asked=size) if self.has_figures else refusal()
        self.seen.append(list(messages))
        number = len(self.seen)
        reply = asks(call("page", "{}")) if number <= self.rounds else says("done")
        return reply


def run_of(
    model: Any, *fallback: str, id: str = "small", page: str = "text " * 300, **named: Any
) -> Played:
    tools = [{"name": "page", "kind": "function"}]
    data = {"name": "n", "model": {"id": id, "fallback": list(fallback)}, "tools": tools}
    agent = load_dict({**data, "instructions": f"system:\nBe brief.\n\nuser:\n{TASK.text}"})
    named["options"] = RunOptions(max_iterations=100, **named.pop("options", {}))
    return Played(agent, model=model, tools={"page": lambda: page}, **named)


class Played(Clocked):
    """A run that keeps its events and its state."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.events: list[tuple[str, Any]] = []
        super().__init__(
            *given, on_event=lambda type, data: self.events.append((type, data)), **named
        )

    @property
    def learned(self) -> dict[str, int]:
        return self._state.learned_budgets

    def said(self) -> list[str]:
        return [data["message"] for type, data in self.events if type == "status"]


@pytest.mark.parametrize("has_figures", [True, False])
async def test_a_conversation_that_grows_without_end_is_cut_again_and_again(
    has_figures: bool,
) -> None:
    model = Reader(6_000, 30, has_figures=has_figures)
    assert (await run_of(model).run()).output == "done"
    assert model.refused == 1, "the limit is learned at the first refusal"
    last = model.seen[-1]
    assert (last[0].text, last[1].text[: len(SUMMARY)]) == ("Be brief.", SUMMARY)
    assert last[-1].role == "tool"


async def test_what_was_learned_is_kept_in_the_state_and_told() -> None:
    model = Reader(6_000, 5, has_figures=True)
    run = run_of(model)
    await run.run()
    (budget,) = run.learned.values()
    assert 0.8 * 6_000 < budget <= 0.9 * 6_000
    assert run.said() == [
        f"The conversation is too long for openai/small and is cut to {budget:,} characters"
    ]


async def test_a_compactor_writes_the_summary() -> None:
    run = run_of(Reader(6_000, 5, has_figures=False), compactor=lambda dropped: "They read pages.")
    await run.run()
    types = [type for type, _ in run.events]
    assert types.count("compaction_start") == types.count("compaction_complete") == 1
    assert any(
        message.text == f"{SUMMARY}They read pages.]" for message in run.conversation.messages
    )


async def test_the_input_guardrail_sees_what_is_sent_instead() -> None:
    def judge(messages: list[Message]) -> GuardrailResult:
        return GuardrailResult(
            allowed=not any("summary" in message.text for message in messages), reason="a summary"
        )

    run = run_of(Reader(6_000, 5, has_figures=True), guardrails=Guardrails(input=judge))
    with pytest.raises(GuardrailError, match="a summary"):
        await run.run()


async def test_nothing_is_cut_while_another_model_takes_all_of_it() -> None:
    large = Reader(100_000, 8, has_figures=True)
    small = Reader(4_000, 8, has_figures=True)

    def model(agent: Agent, messages: list[Message]) -> ScriptedReply | ModelReply:
        assert agent.model is not None
        return (small if agent.model.id == "small" else large)(agent, messages)

    run = run_of(model, "large")
    assert (await run.run()).output == "done"
    assert not run.learned
    assert large.seen[-1][1] == TASK


@pytest.mark.parametrize("other", ["context_length", "authentication"])
async def test_once_all_others_have_failed_the_first_that_was_too_small_gets_less(
    other: Any,
) -> None:
    small = Reader(6_000, 8, has_figures=True)

    def model(agent: Agent, messages: list[Message]) -> ScriptedReply | ModelReply:
        assert agent.model is not None
        if agent.model.id == "small":
            return small(agent, messages)
        raise ModelError("no", kind=other, provider="scripted")

    run = run_of(model, "other")
    assert (await run.run()).output == "done"
    assert list(run.learned) == ["openai/small"]


async def test_what_can_not_be_cut_fails_with_what_to_do() -> None:
    model = Reader(3_000, 1, has_figures=True)
    with pytest.raises(
        ExecuteError, match="its last 2 messages are always sent. Let tools return less"
    ) as failed:
        await run_of(model, page="x" * 9_000).run()
    assert failed.value.reason == "context_length"
    assert model.refused <= CUTS


async def test_a_model_that_always_refuses_is_asked_a_bounded_number_of_times() -> None:
    calls = 0

    def model(agent: Agent, messages: list[Message]) -> ModelReply | ScriptedReply:
        nonlocal calls
        calls += 1
        if calls <= 20:
            return asks(call("page", "{}"))
        raise refusal()

    with pytest.raises(ExecuteError, match="prompt is too long"):
        await run_of(model).run()
    assert 20 < calls <= 20 + CUTS


@pytest.mark.parametrize(
    ("id", "options", "is_told"), [("gpt-4o", {}, 1), ("mine", {}, 0), ("gpt-4o", BUDGET, 0)]
)
async def test_a_budget_is_suggested_once_before_the_first_overflow(
    id: str, options: Any, is_told: int
) -> None:
    sizes: list[int] = []

    def model(agent: Agent, messages: list[Message]) -> ModelReply:
        sizes.append(estimate_chars(messages))
        calls = [call("page", "{}")] if len(sizes) < 15 else []
        usage = Usage(input_tokens=sizes[-1] * 10, total_tokens=sizes[-1] * 10)
        return ModelReply(message=Message.assistant("" if calls else "done", calls), usage=usage)

    run = run_of(model, id=id, options=options)
    await run.run()
    told = [text for text in run.said() if "context_budget=" in text]
    assert len(told) == is_told
    if told:
        budget = int(re.findall(r"context_budget=(\d+)", told[0])[0])
        assert budget == pytest.approx(0.9 * 128_000 / 10, rel=0.01)
