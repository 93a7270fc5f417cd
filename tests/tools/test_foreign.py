"""What a file may say of an activity or workflow, what is wrong with it, and what the other worker
is sent.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from perdure import Message, load, load_dict
from perdure.agents import Agent
from perdure.declared_tools import CustomTool
from perdure.json_types import JsonObject
from perdure.testing import asks, call, run_in_process, says
from perdure.tool_calls import ChildWorkflow, ForeignActivity
from perdure.tools.foreign import (
    ActivityKind,
    ActivityOptions,
    WorkflowKind,
    WorkflowOptions,
    complete_arguments,
    seconds,
    sent_arguments,
)
from perdure.tools.kind import Asking, ToolKind, ToolOfferError
from perdure.tools.signature import InvalidArguments

from ..support.documents import ROOT

PAGE = ROOT / "docs/guides/temporal-interop.md"
KINDS: dict[str, ToolKind] = {"activity": ActivityKind(), "workflow": WorkflowKind()}


def declared(kind: str = "activity", parameters: Any = (), **more: Any) -> CustomTool:
    options = more.pop("options", {kind: "x", "taskQueue": "q"})
    given = None if parameters is None else list(parameters)
    return CustomTool.model_validate(
        {"name": "t", "kind": kind, "parameters": given, "options": options, **more}
    )


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (1, 1.0),
        (0.25, 0.25),
        ("30s", 30.0),
        ("500ms", 0.5),
        ("1h30m", 5400.0),
        ("2d", 172800.0),
        (" 1.5m ", 90.0),
    ],
)
def test_durations(written: Any, read: float) -> None:
    assert seconds(written) == read


@pytest.mark.parametrize(
    "written",
    [0, -1, True, None, "", "30", "s", "1 minute", "1m 2", float("inf"), float("nan"), 1e12],
)
def test_what_is_no_duration(written: Any) -> None:
    with pytest.raises(ValueError, match="expected a number of seconds or a text such as '30s'"):
        seconds(written)


@pytest.mark.parametrize(
    ("tool", "problem"),
    [
        (declared(options=None), "options is missing: expected {activity: TYPE, taskQueue: QUEUE}"),
        (declared(options={"activity": "x"}), "options.taskQueue: Field required"),
        (declared("workflow", options={"taskQueue": "q"}), "options.workflow: Field required"),
        (declared(parameters=None), "parameters is missing"),
        (
            declared(options={"activity": "x", "taskQueue": "q", "taskQ": 1}),
            "options.taskQ is unknown (did you mean 'taskQueue'?)",
        ),
        (
            declared(options={"activity": "x", "taskQueue": "q", "bound": {}}),
            "options.bound is unknown",
        ),
        (
            declared(options={"activity": "", "taskQueue": "q"}),
            "options.activity: expected a name",
        ),
        (
            declared(options={"activity": "x", "taskQueue": "/_sys/q"}),
            "which Temporal keeps for itself",
        ),
        (declared(options={"activity": "x" * 1001, "taskQueue": "q"}), "of at most 1000 bytes"),
        (
            declared(options={"activity": "x", "taskQueue": "q", "heartbeatTimeout": "soon"}),
            "options.heartbeatTimeout: expected a number",
        ),
        (
            declared(
                "workflow", options={"workflow": "x", "id": "a-{{ b }}"}, parameters=[{"name": "c"}]
            ),
            "options.id has {{b}}: expected one of the parameters (c)",
        ),
        (
            declared("workflow", options={"workflow": "x", "idReusePolicy": "always"}),
            "options.idReusePolicy: Input should be",
        ),
        (declared(parameters=[{"name": "a"}, {"name": "a"}]), "parameters has 'a' twice"),
        (declared(parameters=[{"kind": "string"}]), "parameters has one without a name"),
        (
            declared(parameters=[{"name": "a", "kind": "union"}]),
            "needs exactly one non-empty oneOf or anyOf",
        ),
        (
            declared(bindings={"b": {"input": "x"}}),
            "bindings has 'b', which is not among the parameters (none)",
        ),
        (declared(perdure={"local": True}), "perdure.local is true"),
    ],
)
def test_what_is_wrong(tool: CustomTool, problem: str) -> None:
    assert [text for text in KINDS[tool.kind].problems(tool) if problem in text], KINDS[
        tool.kind
    ].problems(tool)


def test_what_the_environment_will_give_is_not_looked_at_yet() -> None:
    tool = declared(
        options={"activity": "x", "taskQueue": "${env:QUEUE}", "heartbeatTimeout": "${env:BEAT}"}
    )
    assert KINDS["activity"].problems(tool) == []


async def test_the_page_has_an_example_that_holds(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "clerk.prompty").write_text(example)
    agent = load(tmp_path / "clerk.prompty")
    charge, ship = agent.tools or []
    assert [KINDS[tool.kind].problems(tool) for tool in (charge, ship)] == [[], []]
    (charged,) = await KINDS["activity"].offer(charge, Asking(agent, {"customer": "Ada"}))
    assert isinstance(charged.execution, ForeignActivity)
    assert (charged.name, charged.timeout, charged.idempotent) == ("charge", 60.0, False)
    options = ActivityOptions.model_validate(charged.execution.options)
    assert sent_arguments(options, complete_arguments(options, {"amount": 3.5})) == [
        {"customer": "Ada", "amount": 3.5}
    ]
    (shipped,) = await KINDS["workflow"].offer(ship, Asking(agent, {}))
    assert isinstance(shipped.execution, ChildWorkflow)
    assert (
        WorkflowOptions.model_validate(shipped.execution.options).filled_id({"order": 17})
        == "ship-17"
    )


async def test_a_required_parameter_whose_input_the_run_lacks() -> None:
    tool = declared(
        parameters=[{"name": "a", "required": True}], bindings={"a": {"input": "customer"}}
    )
    with pytest.raises(
        ToolOfferError, match="bound to the input 'customer', which the run does not have"
    ):
        await KINDS["activity"].offer(tool, Asking(Agent(), {}))


PARAMETERS: list[JsonObject] = [
    {"name": "a", "kind": "integer", "required": True},
    {"name": "b", "kind": "string"},
    {"name": "c", "kind": "boolean", "default": False},
    {"name": "d", "kind": "string"},
]


def options(**more: Any) -> ActivityOptions:
    return ActivityOptions.model_validate(
        {"activity": "x", "taskQueue": "q", "parameters": PARAMETERS, **more}
    )


@pytest.mark.parametrize(
    ("how", "given", "sent"),
    [
        ("object", {"a": 1}, [{"a": 1, "c": False}]),
        ("object", {"a": 1, "b": None, "c": True}, [{"a": 1, "c": True}]),
        ("positional", {"a": 1}, [1, None, False]),
        ("positional", {"d": "x", "a": 1}, [1, None, False, "x"]),
    ],
)
def test_what_is_sent(how: str, given: JsonObject, sent: list[Any]) -> None:
    read = options(arguments=how)
    assert sent_arguments(read, complete_arguments(read, given)) == sent


def test_what_the_model_writes_to_a_bound_parameter_is_dropped() -> None:
    read = options(hidden=["b", "d"], bound={"b": "ours"})
    assert complete_arguments(read, {"a": 1, "b": "theirs", "d": "theirs"}) == {
        "a": 1,
        "b": "ours",
        "c": False,
    }


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "'a' is required (integer)"),
        ({"a": "1"}, "'a' must be integer, got \"1\""),
        ({"a": 1, "e": 2}, "unknown argument 'e': expected a, b, c, d"),
    ],
)
def test_what_does_not_fit(given: JsonObject, problem: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        complete_arguments(options(), given)
    assert caught.value.problems == [problem]


@pytest.mark.parametrize("value", [None, True, 1.5, "", [], {}])
def test_what_is_no_part_of_an_id(value: Any) -> None:
    read = WorkflowOptions.model_validate({"workflow": "x", "id": "order-{{a}}"})
    with pytest.raises(ValueError, match="'a' must be a text or a whole number"):
        read.filled_id({"a": value})


def test_an_id_that_grows_too_long() -> None:
    read = WorkflowOptions.model_validate({"workflow": "x", "id": "order-{{a}}"})
    with pytest.raises(ValueError, match="of at most 1000 bytes"):
        read.filled_id({"a": "x" * 1000})


def test_without_temporal_a_function_stands_in() -> None:
    tool = {
        "name": "charge",
        "kind": "activity",
        "parameters": [{"name": "amount", "kind": "integer", "required": True}],
        "options": {"activity": "charge", "taskQueue": "payments"},
    }
    agent = load_dict({"name": "clerk", "model": {"id": "m"}, "tools": [tool]})
    told = []
    for tools in ({"charge": lambda amount: f"charged {amount}"}, {}):
        script = [asks(call("charge", "c1", amount=3)), says("done")]
        result = run_in_process(agent, [Message.user("Charge 3.")], model=script, tools=tools)
        told.append(result.messages[2].text)
    assert told[0] == "charged 3"
    assert (
        "kind activity needs a Temporal server; to test without one, give a function 'charge'"
        in told[1]
    )
