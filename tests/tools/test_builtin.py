"""Which tools `kind: builtin` offers."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.agents import Agent
from perdure.declared_tools import Tool
from perdure.tools.builtin import BUILT_IN_TOOLS, BuiltInTools
from perdure.tools.kind import Asking, Kinds


def declared(name: str, **fields: Any) -> tuple[Agent, Tool]:
    tool = {"name": name, "kind": "builtin", **fields}
    agent = Agent.model_validate({"name": "a", "model": {"id": "m"}, "tools": [tool]})
    assert agent.tools
    return agent, agent.tools[0]


@pytest.mark.parametrize("name", BUILT_IN_TOOLS)
async def test_each_is_offered_by_its_name(name: str) -> None:
    agent, tool = declared(name)
    kind = Kinds().get("builtin")
    assert isinstance(kind, BuiltInTools)
    assert kind.problems(tool) == ()
    [offering] = await kind.offer(tool, Asking(agent, {}))
    assert offering.name == name
    assert offering.description


async def test_a_file_may_describe_it_in_its_own_words() -> None:
    agent, tool = declared("read_result", description="Page through long results.")
    [offering] = await BuiltInTools().offer(tool, Asking(agent, {}))
    assert offering.description == "Page through long results."


def test_an_unknown_name_is_told_with_those_that_there_are() -> None:
    [problem] = BuiltInTools().problems(declared("read_results")[1])
    assert problem.startswith(
        "'read_results' is not a built-in tool (did you mean 'read_result'?): expected one of "
    )
    assert all(name in problem for name in BUILT_IN_TOOLS)


def test_parameters_of_the_file_s_own_are_a_problem() -> None:
    [problem] = BuiltInTools().problems(
        declared("read_result", parameters=[{"name": "x", "kind": "string"}])[1]
    )
    assert "leave out `parameters`" in problem
