"""§13.5: messages to a running agent: when they are read, in which order, and that none is lost."""

from __future__ import annotations

import asyncio

import pytest

from perdure.errors import ExecuteError, MaxIterationsError, RunCancelled
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.messages import Message
from perdure.testing import asks, call, says

from ..support.loop_stage import Said, Stage, fails


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


async def test_drained_at_the_top_of_an_iteration_in_order() -> None:
    def steered() -> str:
        stage.run.steer("first")
        stage.run.steer("second")
        return "seen"

    stage = Stage(asks("look"), says("Done"), tools={"look": steered})
    await stage.play()
    assert texts(stage.seen[1]) == ["Be brief.", "Hi", "", "seen", "first", "second"]
    assert [message.role for message in stage.messages[4:6]] == ["user", "user"]
    second_round = stage.types()[5:8]
    assert second_round == ["messages_updated", "status", "llm_start"]
    assert stage.said() == ["Injected 2 steering message(s)"]


async def test_what_was_sent_before_the_start_is_read_first() -> None:
    stage = Stage(says("Done"))
    stage.run.steer("be quick")
    await stage.play()
    assert texts(stage.seen[0]) == ["Be brief.", "Hi", "be quick"]


async def test_drained_before_trimming_and_seen_by_the_input_guardrail() -> None:
    judged: list[list[str]] = []

    def judge(messages: list[Message]) -> GuardrailResult:
        judged.append(texts(messages))
        return GuardrailResult(allowed=True)

    old = [Message.user("old " * 50), Message.assistant("older " * 50)]
    stage = Stage(
        says("Done"), messages=old, guardrails=Guardrails(input=judge), context_budget=200
    )
    stage.run.steer("one")
    stage.run.steer("two")
    await stage.play()
    assert [text[:18] for text in judged[0]] == ["[Context summary: ", "one", "two"]


async def test_never_interrupts_a_tool() -> None:
    order: list[str] = []

    async def slow() -> str:
        stage.run.steer("hurry")
        await asyncio.sleep(0.01)
        order.append("tool ended")
        return "done"

    stage = Stage(asks(call("work"), call("work", "other")), says("Done"), tools={"work": slow})
    await stage.play()
    assert order == ["tool ended"] * 2
    assert texts(stage.messages)[3:] == ["done", "done", "hurry", "hurry", "Done"]


def steering(stage: Stage, reply: Said, *sent: str) -> Said:
    for text in sent:
        stage.run.steer(text)
    return reply


async def test_a_message_during_the_final_call_causes_one_more_iteration() -> None:
    stage = Stage(lambda: steering(stage, says("Four"), "And in French?"), says("Quatre"))
    result = await stage.play()
    assert (result.output, result.iterations) == ("Quatre", 2)
    assert texts(stage.seen[1]) == ["Be brief.", "Hi", "Four", "And in French?"]
    assert stage.types("done") == ["done"]


async def test_a_message_during_the_last_call_that_the_cap_allows_stays_for_the_next_turn() -> None:
    stage = Stage(lambda: steering(stage, says("Four"), "And in French?"), max_iterations=1)
    result = await stage.play()
    assert (result.output, result.iterations) == ("Four", 1)
    assert texts(result.messages) == ["Be brief.", "Hi", "Four", "And in French?"]
    assert stage.types()[-3:] == ["messages_updated", "status", "done"]


async def test_a_message_during_the_final_call_does_not_turn_a_budget_into_a_failure() -> None:
    stage = Stage(
        lambda: steering(stage, says("Four", output_tokens=90), "And in French?"),
        max_total_tokens=80,
    )
    assert (await stage.play()).output == "Four"
    assert stage.messages[-1].text == "And in French?"


async def test_a_message_during_the_answer_without_tools_is_kept() -> None:
    stage = Stage(
        asks("look"),
        lambda: steering(stage, says("So far: nothing"), "thanks"),
        tools={"look": lambda: "seen"},
        max_iterations=1,
        on_limit="final_answer",
    )
    assert (await stage.play()).output == "So far: nothing"
    assert texts(stage.messages)[-2:] == ["So far: nothing", "thanks"]


async def test_messages_to_a_run_that_fails_or_is_cancelled_are_kept() -> None:
    failing = Stage(lambda: steering(failing, fails("bad_request"), "hello?"))
    with pytest.raises(ExecuteError) as failure:
        await failing.play()
    assert texts(failure.value.messages)[-1] == "hello?"

    def cancelled() -> Said:
        stage.run.cancel()
        return steering(stage, asks("look"), "wait!")

    stage = Stage(cancelled, tools={"look": lambda: "seen"})
    with pytest.raises(RunCancelled) as cancellation:
        await stage.play()
    assert texts(cancellation.value.messages)[-2:] == ["[cancelled]", "wait!"]
    assert stage.types()[-1] == "cancelled"


async def test_steering_spends_iterations_within_the_cap() -> None:
    def round() -> Said:
        return steering(stage, asks("look"), "more")

    stage = Stage(round, round, round, tools={"look": lambda: "seen"}, max_iterations=3)
    with pytest.raises(MaxIterationsError) as failure:
        await stage.play()
    assert texts(failure.value.messages).count("more") == 3
