"""§13.3 in a run: when the context is trimmed, by whose summary, and which events say so."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.agents import Agent
from perdure.errors import ModelError
from perdure.messages import Message, ModelReply
from perdure.testing import asks, call, says

from ..support.loop_stage import Stage

LONG = [
    Message.system("Be brief."),
    Message.user("What is " + "very " * 20 + "old?"),
    Message.assistant("Stones."),
    Message.user("And young?"),
]


async def test_without_a_budget_nothing_is_trimmed() -> None:
    stage = Stage(says("Leaves"), messages=LONG)
    await stage.play()
    assert stage.seen[0] == LONG


async def test_trimmed_before_the_model_call_with_the_built_in_summary() -> None:
    stage = Stage(says("Leaves"), messages=LONG, context_budget=120)
    await stage.play()
    system, summary, *kept = stage.seen[0]
    assert (system, kept) == (LONG[0], LONG[2:])
    assert summary == Message.user(f"[Context summary: User asked: {LONG[1].text}]")
    assert stage.types() == [
        "messages_updated",
        "llm_start",
        "llm_complete",
        "messages_updated",
        "done",
    ]


async def test_trimmed_again_when_tools_fill_the_context() -> None:
    def much() -> str:
        return "much " * 20

    rounds = [asks(call("much", f"{number}")) for number in range(6)]
    stage = Stage(*rounds, says("Done"), tools={"much": much}, context_budget=400)
    await stage.play()
    assert all(seen[0].text == "Be brief." for seen in stage.seen)
    assert max(map(len, stage.seen)) < 2 + 2 * 6
    for seen in stage.seen:
        asked = [found.id for message in seen for found in message.tool_calls]
        assert [
            message.metadata["tool_call_id"] for message in seen if message.role == "tool"
        ] == asked


def compacting(*steps: Any, **named: Any) -> Stage:
    return Stage(*steps or [says("Leaves")], messages=LONG, context_budget=120, **named)


NO_SUMMARY = "the compactor returned {!r}: expected a text that sums up the messages"


def broken(dropped: list[Message]) -> str:
    raise LookupError("out of words")


@pytest.mark.parametrize(
    ("compactor", "text"),
    [
        (broken, "out of words"),
        *[
            (lambda dropped, said=said: said, NO_SUMMARY.format(said))
            for said in (None, 7, {"a": "b"}, "", " \n", "…")
        ],
    ],
)
async def test_a_compactor_that_fails_falls_back_to_the_built_in_summary(
    compactor: Any, text: str
) -> None:
    stage = compacting(compactor=compactor)
    assert (await stage.play()).output == "Leaves"
    assert stage.seen[0][1].text.startswith("[Context summary: User asked: What is very")
    assert stage.types()[:3] == ["compaction_start", "compaction_failed", "messages_updated"]
    assert stage.data("compaction_failed") == [{"message": text}]


COMPACTOR = Agent.model_validate(
    {
        "name": "compactor",
        "inputs": [{"name": "conversation"}],
        "instructions": "system:\nSummarise.\nuser:\n{{conversation}}",
    }
)


async def test_an_agent_compacts_by_a_model_call_without_tools() -> None:
    stage = compacting(
        says("Age."), says("Leaves"), compactor=COMPACTOR, tools={"look": lambda: "seen"}
    )
    result = await stage.play()
    assert stage.seen[0] == [Message.system("Summarise."), Message.user(f"user: {LONG[1].text}")]
    assert [agent.name for agent in stage.agents] == ["compactor", "staged"]
    assert stage.seen[1][1].text == "[Context summary: Age.]"
    assert result.iterations == 1, "compaction is no iteration"


async def test_an_agent_that_fails_to_compact() -> None:
    def failing() -> ModelReply:
        raise ModelError("too busy", kind="overloaded", provider="scripted")

    stage = compacting(failing, says("Leaves"), compactor=COMPACTOR)
    assert (await stage.play()).output == "Leaves"
    assert stage.data("compaction_failed") == [{"message": "too busy"}]


async def test_what_cannot_be_trimmed_is_sent_whole() -> None:
    two = [Message.user("a" * 500), Message.user("b" * 500)]
    stage = Stage(says("Done"), messages=two, context_budget=100, compactor=broken)
    await stage.play()
    assert stage.seen[0] == two
    assert stage.types() == ["llm_start", "llm_complete", "messages_updated", "done"]


async def test_the_answer_without_tools_is_asked_within_the_budget() -> None:
    stage = Stage(
        *[asks("much")],
        says("Done"),
        tools={"much": lambda: "much " * 100},
        context_budget=600,
        max_iterations=1,
        on_limit="final_answer",
        messages=[Message.user("a" * 300), Message.user("b")],
    )
    await stage.play()
    assert stage.seen[1][0].text.startswith("[Context summary: ")
