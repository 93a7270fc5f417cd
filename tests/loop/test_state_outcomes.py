"""What a run gives: text, structured values, the raw response, usage; and what the next turn starts
from (§14).
"""

from __future__ import annotations

from typing import Any

import pytest

from perdure.agents import Agent
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.json_types import JsonObject
from perdure.messages import Message, ModelReply, Usage
from perdure.testing import asks, call, says

from ..support.loop_stage import Stage

LOOK: Any = {"look": lambda: "seen"}


async def test_text() -> None:
    result = await Stage(says("Blue")).play()
    assert (result.output, result.is_incomplete) == ("Blue", False)
    assert [message.role for message in result.messages] == ["system", "user", "assistant"]


@pytest.mark.parametrize("value", [{"n": 1}, {}, [], 0, False])
async def test_structured_output(value: Any) -> None:
    agent = Agent.model_validate({"name": "counts", "outputs": [{"name": "n", "kind": "integer"}]})
    stage = Stage(ModelReply(message=Message.assistant("the text"), output=value), agent=agent)
    assert (await stage.play()).output == value
    assert stage.data("done") == [{"response": "the text"}]


async def test_raw_output() -> None:
    stage = Stage(ModelReply(message=Message.assistant("Blue"), raw={"id": "1"}), raw=True)
    assert (await stage.play()).output == {"id": "1"}
    assert stage.data("done") == [{"response": "Blue"}]


OUTPUTS = [{"name": "age", "kind": "integer"}]
AGES = Agent.model_validate({"name": "ages", "outputs": OUTPUTS, "tools": [{"name": "look"}]})


@pytest.mark.parametrize("text", ['{"age": 7}', '{"age": "old"}', "seven"])
@pytest.mark.parametrize("limits", [{}, {"max_iterations": 1, "on_limit": "final_answer"}])
async def test_raw_output_is_not_checked_against_the_outputs(text: str, limits: JsonObject) -> None:
    said = ModelReply(
        message=Message.assistant(text), raw={"id": "1"}, faults=["$.age: not a number"]
    )
    steps = [asks("look"), said] if limits else [said]
    stage = Stage(*steps, agent=AGES, tools=LOOK, raw=True, **limits)
    assert (await stage.play()).output == {"id": "1"}
    assert len(stage.seen) == len(steps), "it is not asked again"


async def test_a_rewritten_answer_has_no_raw_response() -> None:
    guardrails = Guardrails(output=lambda message: GuardrailResult(allowed=True, rewrite="*****"))
    stage = Stage(
        ModelReply(message=Message.assistant("12345"), raw={"pin": "12345"}),
        raw=True,
        guardrails=guardrails,
    )
    assert (await stage.play()).output == "*****"


async def test_usage_per_iteration_and_in_total() -> None:
    first = Usage(
        input_tokens=5, output_tokens=2, total_tokens=7, cached_input_tokens=4, reasoning_tokens=1
    )
    second = Usage(input_tokens=6, output_tokens=4, total_tokens=10)
    asking = ModelReply(message=Message.assistant("", [call("look")]), usage=first)
    stage = Stage(asking, says("Done", input_tokens=6, output_tokens=4), tools=LOOK)
    result = await stage.play()
    assert result.usage == first + second
    assert [data["usage"] for data in stage.data("llm_complete")] == [
        usage.model_dump() for usage in (first, second)
    ]


async def test_a_finished_run_s_messages_continue_in_a_next_turn() -> None:
    first = await Stage(asks("look"), says("Blue"), tools=LOOK).play()
    second = Stage(says("Because"), messages=[*first.messages, Message.user("Why?")])
    result = await second.play()
    assert [message.text for message in second.seen[0]] == [
        "Be brief.",
        "Hi",
        "",
        "seen",
        "Blue",
        "Why?",
    ]
    assert (result.iterations, len(result.messages)) == (1, 7)


async def test_the_result_is_no_window_into_the_run() -> None:
    stage = Stage(says("Blue"))
    result = await stage.play()
    result.messages.clear()
    assert len(stage.messages) == 3
