"""The model that is not asked: one recorded answer becomes a reply."""

from __future__ import annotations

import pytest

from perdure.agents import Agent
from perdure.errors import ConfigurationError
from perdure.messages import ModelReply, Usage
from perdure.providers.base import ModelCallOptions
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


def test_more_calls_than_answers() -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"2 mock answers, and this is model call 3.*an action for each step",
    ):
        MockedModel(["{}", "Hello"], 3, reads_calls=True)
