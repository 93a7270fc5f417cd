"""A bound parameter whose input is absent: the model, which never saw it, hears nothing of it."""

from __future__ import annotations

from typing import Any

from perdure.agents import Agent
from perdure.tools.dispatch import ToolBox


def agent(**tool: Any) -> Agent:
    parameters = [{"name": "city", "required": True}, {"name": "unit", "required": True}]
    bindings = {"unit": {"input": "preferred"}}
    declared = {
        "name": "t",
        "kind": "function",
        "parameters": parameters,
        "bindings": bindings,
        **tool,
    }
    return Agent.model_validate({"tools": [declared]})


async def test_the_handler_is_called() -> None:
    def look(city: str, unit: str = "celsius") -> str:
        return f"{city} {unit}"

    result = await ToolBox({"t": look}).execute(agent(), "t", {"city": "Paris"}, {})
    assert result.text == "Paris celsius"


async def test_the_handler_of_a_kind_is_called() -> None:
    box = ToolBox(kinds={"mine": lambda tool, arguments, agent, inputs: arguments})
    result = await box.execute(agent(kind="mine"), "t", {"city": "Paris"}, {})
    assert result.text == '{"city":"Paris"}'


async def test_a_function_that_needs_it_fails_without_naming_it() -> None:
    def look(city: str, unit: int) -> str:
        return f"{city} {unit}"

    for inputs in ({}, {"preferred": "none"}):
        result = await ToolBox({"t": look}).execute(agent(), "t", {"city": "Paris"}, inputs)
        assert result.status == "error"
        assert "unit" not in result.text
        assert "the run's inputs lack the values that the tool is bound to" in result.text
    result = await ToolBox({"t": look}).execute(agent(), "t", {"town": "Paris"}, {})
    assert result.text == (
        "Error: Invalid arguments for tool 't': unknown argument 'town': expected city; 'city' is "
        "required (string)"
    )
