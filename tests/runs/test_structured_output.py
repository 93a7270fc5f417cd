"""An answer that does not fit `outputs` is sent back with what is wrong, and never becomes a
result.
"""

from __future__ import annotations

from typing import Any

import pytest

from perdure.agents import Agent
from perdure.errors import OutputError
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.messages import Message
from perdure.options import RunOptions
from perdure.testing import InProcessRun, ScriptedReply, says

OUTPUTS = [
    {"name": "city", "kind": "string", "required": True},
    {"name": "degrees", "kind": "integer", "required": True},
]
GOOD = '{"city": "Paris", "degrees": 31}'
WRONG = '{"city": "Paris", "degrees": "hot"}'


async def in_process(
    *replies: ScriptedReply,
    outputs: Any = OUTPUTS,
    guardrails: Guardrails | None = None,
    **options: Any,
) -> tuple[Any, list[str]]:
    agent = Agent.model_validate({"name": "weather", "outputs": outputs})
    seen: list[str] = []
    run = InProcessRun(
        agent,
        [Message.user("How is it?")],
        model=list(replies),
        tools={"look": lambda: "hot"},
        options=RunOptions(**options),
        guardrails=guardrails,
        on_event=lambda type, data: seen.append(data["message"] if type == "status" else type),
    )
    return await run.run(), seen


async def test_what_is_wrong_is_sent_back() -> None:
    result, seen = await in_process(says(WRONG), says("It is hot."), says(GOOD))
    assert (result.output, result.iterations) == ({"city": "Paris", "degrees": 31}, 3)
    told = [message.text for message in result.messages if message.role == "user"][1:]
    assert "$.degrees: 'hot' is not of type 'integer'" in told[0]
    assert "not a JSON object" in told[1]
    assert [each for each in seen if each.startswith("The answer")] == [
        "The answer does not fit the declared outputs, retry 1 of 2: $.degrees: 'hot' is not of "
        "type 'integer'",
        "The answer does not fit the declared outputs, retry 2 of 2: the answer is not a JSON "
        "object",
    ]


async def test_the_run_fails_with_the_text() -> None:
    with pytest.raises(OutputError, match="'hot' is not of type 'integer'") as raised:
        await in_process(*[says(WRONG)] * 4, output_retries=1)
    error = raised.value
    assert (error.kind, error.text, error.iterations) == ("output", WRONG, 2)
    assert error.messages[-1].text == WRONG


async def test_a_guardrail_s_rewrite_is_checked_too() -> None:
    rewrites: list[Any] = [{"city": "Paris"}, WRONG, {"city": "Rome", "degrees": 20}]

    def rewrite(message: Message) -> GuardrailResult:
        return GuardrailResult(allowed=True, rewrite=rewrites.pop(0))

    guardrails = Guardrails(output=rewrite)
    result, _ = await in_process(says(GOOD), says(GOOD), says(WRONG), guardrails=guardrails)
    assert result.output == {"city": "Rome", "degrees": 20}
    told = [message.text for message in result.messages if message.role == "user"][1:]
    assert "'degrees' is a required property" in told[0]
    assert "'hot' is not of type 'integer'" in told[1]


async def test_a_last_answer_at_a_limit_must_fit() -> None:
    limit: Any = {"max_iterations": 1, "on_limit": "final_answer"}
    result, _ = await in_process(says(WRONG), says(GOOD), **limit)
    assert (result.output, result.is_incomplete) == ({"city": "Paris", "degrees": 31}, True)
    with pytest.raises(OutputError, match="exceeded 1 iterations"):
        await in_process(says(WRONG), says(WRONG), **limit)


async def test_what_is_sent_back_is_bounded() -> None:
    items = [{"name": "n", "kind": "array", "items": {"kind": "integer"}}]
    many = '{"n": [' + ", ".join(['"' + "x" * 2000 + '"'] * 500) + "]}"
    result, seen = await in_process(says(many), says('{"n": [1]}'), outputs=items)
    told = [message.text for message in result.messages if message.role == "user"][1]
    assert told.count("\n- ") == 20
    assert len(told) < 20 * 600
    deep = '{"n": ' + "[" * 900 + "]" * 900 + "}"
    result, _ = await in_process(says(deep), says('{"n": [1]}'), outputs=items)
    assert result.output == {"n": [1]}
