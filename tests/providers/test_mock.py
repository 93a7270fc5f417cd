"""The model that is not asked: one recorded answer becomes a reply."""

from __future__ import annotations

import pytest

from perdure.agents import Agent
from perdure.errors import ConfigurationError
from perdure.messages import ModelReply, Usage
from perdure.providers.base import Delta, ModelCallOptions
from perdure.providers.mock import MockedModel

PLAIN = Agent(name="mocked")


async def reply(text: str, agent: Agent = PLAIN, *, reads_calls: bool = True) -> ModelReply:
    model = MockedModel([text], 1, reads_calls=reads_calls)
    return model.reply(agent, await model.call(agent, {}, ModelCallOptions(1)))


async def test_a_text_costs_nothing() -> None:
    said = await reply("Hello!")
    assert (said.message.text, said.usage, said.cost_usd, said.warnings) == (
        "Hello!",
        Usage(),
        0.0,
        [],
    )


async def test_calls_by_name_with_ids_of_their_own() -> None:
    calls = [
        '{"name": "a", "arguments": {"x": 1}}',
        '{"name": "a"}',
        '{"id": "k", "name": "b", "arguments": "{oops"}',
        "7",
    ]
    text = f'{{"content": "Both.", "tool_calls": [{", ".join(calls)}, {{}}]}}'
    said = await reply(text)
    assert said.message.text == "Both."
    assert [(each.id, each.name, each.arguments) for each in said.message.tool_calls] == [
        ("mock_1_0_a", "a", '{"x":1}'),
        ("mock_1_1_a", "a", "{}"),
        ("k", "b", "{oops"),
    ]
    in_text = await reply(text, reads_calls=False)
    assert (in_text.message.text, in_text.message.tool_calls) == (text, [])


async def test_it_is_streamed_word_by_word() -> None:
    told: list[Delta] = []
    model = MockedModel(["first", " Hello,\n  my   world! "], 2, reads_calls=True)
    await model.call(PLAIN, {}, ModelCallOptions(1, on_delta=told.append, stream=True))
    assert [each.text for each in told] == [" Hello,\n  ", "my   ", "world! "]


async def test_an_answer_that_has_a_structure() -> None:
    agent = Agent.model_validate(
        {"name": "s", "outputs": [{"name": "score", "kind": "integer", "required": True}]}
    )
    assert (await reply('{"score": 3}', agent)).output == {"score": 3}
    assert (await reply("no", agent)).faults == ["the answer is not a JSON object"]


def test_more_calls_than_answers() -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"2 mock answers, and this is model call 3.*an action for each step",
    ):
        MockedModel(["{}", "Hello"], 3, reads_calls=True)
