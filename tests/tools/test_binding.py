"""`bind_tools` (§11.2) and bindings (§9.6)."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator

import pytest

from perdure.agents import Agent
from perdure.tools import apply_bindings, bind_tools, clear_tools, get_tool, tool

AGENT = Agent.model_validate(
    {
        "tools": [
            {
                "name": "get_weather",
                "kind": "function",
                "bindings": {"unit": {"input": "preferred_unit"}},
            },
            {"name": "get_time", "kind": "function"},
            {"name": "github", "kind": "mcp"},
        ]
    }
)


@pytest.fixture(autouse=True)
def _forget_tools() -> Iterator[None]:
    yield
    clear_tools()


@tool
def get_weather(city: str, unit: str = "celsius") -> str:
    return f"{city} {unit}"


@tool(name="get_time")
def clock() -> str:
    return "noon"


@tool
def get_wether() -> str:
    return ""


@tool(name="github")
def hub() -> str:
    return ""


def test_it_gives_the_functions_by_name() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bind_tools(AGENT, [get_weather, clock]) == {
            "get_weather": get_weather,
            "get_time": clock,
        }


def test_two_functions_of_one_name_are_an_error() -> None:
    with pytest.raises(ValueError, match="^Duplicate tool handler: get_time$"):
        bind_tools(AGENT, [clock, clock])


@pytest.mark.parametrize(("function", "name"), [(get_wether, "get_wether"), (hub, "github")])
def test_a_function_that_no_function_tool_declares_is_an_error(function: object, name: str) -> None:
    with pytest.raises(ValueError, match="no matching declaration") as caught:
        bind_tools(AGENT, [get_weather, function])  # type: ignore[list-item]
    assert str(caught.value) == (
        f"Tool handler '{name}' has no matching declaration in agent.tools. Declared function "
        "tools: get_weather, get_time"
    )


def test_a_declared_tool_without_function_is_a_warning() -> None:
    with pytest.warns(UserWarning, match="no handler") as caught:
        assert bind_tools(AGENT, [get_weather]) == {"get_weather": get_weather}
    assert [str(each.message) for each in caught] == [
        "Tool 'get_time' is declared in agent.tools but no handler was provided to bind_tools()"
    ]
    assert caught[0].filename == __file__


def test_only_tools_can_be_bound() -> None:
    with pytest.raises(TypeError, match="put @tool above its definition"):
        bind_tools(AGENT, [len])


def test_it_changes_nothing() -> None:
    before = AGENT.model_dump_json()
    clear_tools()
    bind_tools(AGENT, [get_weather, clock])
    assert AGENT.model_dump_json() == before
    assert get_tool("get_weather") is None


def test_a_binding_overrides_what_the_model_wrote() -> None:
    arguments = {"city": "Paris", "unit": "kelvin"}
    bound = apply_bindings(
        AGENT.tool("get_weather"), arguments, {"preferred_unit": "celsius", "x": 1}
    )
    assert bound == {"city": "Paris", "unit": "celsius"}
    assert arguments["unit"] == "kelvin"


def test_a_binding_without_its_input_leaves_the_argument() -> None:
    assert apply_bindings(AGENT.tool("get_weather"), {"unit": "kelvin"}, {}) == {"unit": "kelvin"}
    assert apply_bindings(AGENT.tool("get_time"), {"a": 1}, {"a": 2}) == {"a": 1}
    assert apply_bindings(None, {"a": 1}, {"a": 2}) == {"a": 1}


def test_the_binding_module_imports_nothing_heavy() -> None:
    heavy = "{'jsonschema', 'yaml', 'jinja2', 'openai', 'anthropic'}"
    check = (
        f"import sys, perdure.tools.binding; assert not {heavy} & set(sys.modules), {heavy} & "
        "set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], check=True)
