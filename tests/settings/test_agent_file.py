"""What an agent's file says of its runs."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.agents import Agent
from perdure.errors import ConfigurationError, LoadError
from perdure.json_types import JsonObject
from perdure.options import RunOptions
from perdure.settings.agent_file import (
    OPTION_NAMES,
    called_options,
    context_messages,
    options_for,
    session_settings,
    setting_problems,
)


def agent(**metadata: Any) -> Agent:
    return Agent(name="it", metadata=metadata or None)


def test_a_file_without_settings_changes_nothing() -> None:
    options = RunOptions(max_iterations=3)
    assert options_for(agent(), options) is options
    assert options_for(agent(other={"maxIterations": 1})) == RunOptions()


OWN: list[tuple[str, object, str, object]] = [
    ("maxIterations", 4, "max_iterations", 4),
    ("maxLlmRetries", "2", "max_llm_retries", 2),
    ("contextBudget", 5000, "context_budget", 5000),
    ("parallelToolCalls", True, "parallel_tool_calls", True),
    ("toolTimeout", 1.5, "tool_timeout", 1.5),
    ("cancelGrace", 0, "cancel_grace", 0.0),
    ("onLimit", "final_answer", "on_limit", "final_answer"),
    ("unknownTools", "raise", "unknown_tools", "raise"),
    ("maxToolCalls", 7, "max_tool_calls", 7),
    ("maxTotalTokens", 900, "max_total_tokens", 900),
    ("maxSeconds", 60, "max_seconds", 60.0),
    ("maxCostUsd", 0.5, "max_cost_usd", 0.5),
    ("maxResult", 100, "max_result", 100),
    ("toolProtocol", "json", "tool_protocol", "json"),
    ("limitMessage", "That was all.", "limit_message", "That was all."),
]


@pytest.mark.parametrize(("name", "written", "option", "value"), OWN, ids=[row[0] for row in OWN])
def test_options_by_their_own_names(name: str, written: object, option: str, value: object) -> None:
    assert OPTION_NAMES[name] == option
    assert getattr(options_for(agent(perdure={name: written})), option) == value


def test_the_caller_then_the_file_then_the_environment_then_what_is_usual() -> None:
    environment = {"AGENTIC_LOOP_MAX_STEPS": "7"}
    said, silent = agent(kaos={"max_steps": 3}), agent(kaos={})
    assert options_for(said, RunOptions(max_iterations=10), environment).max_iterations == 10
    assert options_for(said, RunOptions(), environment).max_iterations == 3
    assert options_for(silent, RunOptions(), environment).max_iterations == 7
    assert options_for(silent).max_iterations == 5
    assert options_for(agent(), RunOptions(), environment).max_iterations == 10


def test_options_that_were_recorded_stay_as_they_are() -> None:
    recorded = RunOptions(**dict(RunOptions()))
    assert options_for(agent(octopus={}), recorded) == RunOptions()


@pytest.mark.parametrize(
    "metadata", [{"kaos": {}}, {"kaos": None}, {"perdure": {"toolProtocol": "auto"}}]
)
def test_a_kaos_agent_has_five_steps_and_its_own_words_at_the_limit(
    metadata: JsonObject,
) -> None:
    options = options_for(agent(**metadata))
    assert (options.max_iterations, options.on_limit, options.progress) == (5, "partial", True)
    assert options.limit_message == "Reached maximum reasoning steps ({max_iterations})"


def test_kaos_names() -> None:
    assert options_for(agent(kaos={"reasoningLoopMaxSteps": 12})).max_iterations == 12
    assert options_for(agent(kaos={"tool_call_mode": "string"})).tool_protocol == "json"
    assert options_for(agent(kaos={}, perdure={"maxIterations": 6})).max_iterations == 6
    assert context_messages(agent(kaos={"memory_context_limit": 2})) == 2
    assert context_messages(agent(kaos={"memory": {"contextLimit": 0}})) == 0
    assert context_messages(agent(kaos={})) == 6
    assert context_messages(agent(kaos={}), {"MEMORY_CONTEXT_LIMIT": "9"}) == 9


@pytest.mark.parametrize(
    ("metadata", "protocol"),
    [
        ({"kaos": {}}, "json"),
        ({"kaos": None}, "json"),
        ({"kaos": {"max_steps": 3}}, "json"),
        ({"kaos": {}, "perdure": {"toolProtocol": "native"}}, "native"),
        ({"kaos": {"toolCallMode": "auto"}}, "auto"),
        ({"octopus": {}}, "native"),
    ],
)
def test_a_kaos_agent_has_two_phases_unless_it_says_otherwise(
    metadata: JsonObject, protocol: str
) -> None:
    assert options_for(agent(**metadata)).tool_protocol == protocol
    assert (
        options_for(agent(**metadata), RunOptions(tool_protocol="native")).tool_protocol == "native"
    )


def test_sessions() -> None:
    said = session_settings(agent(perdure={"session": {"idleTimeout": "90", "whileBusy": "queue"}}))
    assert (said.idle_timeout, said.while_busy) == (90.0, "queue")
    assert session_settings(agent()).idle_timeout is None


WRONG: list[tuple[JsonObject, str]] = [
    (
        {"perdure": {"maxIteration": 3}},
        "metadata.perdure.maxIteration: unknown setting 'maxIteration' (did you mean",
    ),
    ({"perdure": {"max_iterations": 3}}, "(did you mean 'maxIterations'?)"),
    (
        {"perdure": {"maxIterations": "many"}},
        "metadata.perdure.maxIterations: 'many': input should be a valid integer",
    ),
    (
        {"perdure": {"maxIterations": True}},
        "metadata.perdure.maxIterations: True: expected a number",
    ),
    ({"perdure": {"maxIterations": 0}}, "greater than or equal to 1"),
    ({"perdure": {"toolTimeout": "${env:T}"}}, "this environment variable is not set"),
    ({"perdure": {"compactor": "short"}}, "set it when you start a run"),
    (
        {"perdure": {"session": {"whileBusy": "wait"}}},
        "metadata.perdure.session.whileBusy: 'wait': Input should be 'steer'",
    ),
    (
        {"perdure": {"session": {"idleTimeout": -1}}},
        "metadata.perdure.session.idleTimeout: -1: Input should be greater",
    ),
    ({"perdure": [1]}, "metadata.perdure: expected a map of settings"),
    ({"octopus": {"maxToolIterations": 3}}, "(did you mean 'MaxToolIterations'?)"),
    (
        {"octopus": {"PruningStrategy": "SlidingWindow"}},
        "MaxWorkingMemoryTokens and MinHistoryMessages",
    ),
    ({"octopus": {"PruningStrategy": "Summarize"}}, "compactor"),
    ({"octopus": {"PruningStrategy": ["FIFO"]}}, "expected FIFO, Summarize, SlidingWindow"),
    (
        {"octopus": {"ToolResultTruncator": {"max": 3}}},
        "metadata.octopus.ToolResultTruncator.max: unknown setting",
    ),
    ({"octopus": {"ToolResultTruncator": 0}}, "expected a whole number, at least 1"),
    (
        {"kaos": {"max_steps": 3, "reasoningLoopMaxSteps": 4}},
        "another setting there is 3 of the same",
    ),
    ({"kaos": {"tool_call_mode": "json"}}, "expected auto, native, string"),
    ({"kaos": "yes"}, "metadata.kaos: expected a map of settings"),
    ({"kaos": {}, "octopus": {}}, "settings of Octopus too"),
]


@pytest.mark.parametrize(("metadata", "text"), WRONG, ids=[str(row[0]) for row in WRONG])
def test_what_is_wrong_is_said_with_its_place(metadata: JsonObject, text: str) -> None:
    with pytest.raises(LoadError) as error:
        options_for(agent(**metadata))
    assert text in str(error.value)


def test_a_variable_that_is_no_number_is_named() -> None:
    with pytest.raises(
        ConfigurationError, match="AGENTIC_LOOP_MAX_STEPS: 'five': expected a whole number"
    ):
        options_for(agent(kaos={}), RunOptions(), {"AGENTIC_LOOP_MAX_STEPS": "five"})


def test_settings_of_a_memory_that_is_not_here_are_no_error() -> None:
    metadata = {"kaos": {"memory": {"enabled": True, "maxSessions": 10}}}
    options_for(agent(**metadata))
    assert [problem.is_fatal for problem in setting_problems(metadata)] == [False, False]


def test_settings_at_another_place_are_told_where_they_belong() -> None:
    metadata = {"toolProtocol": "json", "progress": "half done", "perdure": {"whileBusy": "queue"}}
    assert [
        (".".join(problem.place), problem.text, problem.is_fatal)
        for problem in setting_problems(metadata)
    ] == [
        (
            "metadata.perdure.whileBusy",
            "expected in metadata.perdure.session: {whileBusy: …}",
            True,
        ),
        (
            "metadata.toolProtocol",
            "has no effect there: write metadata.perdure.toolProtocol",
            False,
        ),
    ]


def test_a_called_agent_has_its_own_file_and_the_budgets_of_its_caller() -> None:
    caller, plain = agent(kaos={}, perdure={"toolTimeout": 5}), agent()
    options = options_for(caller, RunOptions(max_tool_calls=3, max_depth=2))
    called = called_options(options, caller, plain)
    assert called == RunOptions(max_tool_calls=3, max_depth=2), (
        "what the caller's file says is the caller's alone"
    )
    own = called_options(
        options, caller, agent(perdure={"maxIterations": 20, "maxToolCalls": 9, "maxDepth": 5})
    )
    assert (own.max_iterations, own.max_tool_calls, own.max_depth) == (20, 3, 2)
    assert (
        called_options(RunOptions(), plain, agent(perdure={"maxToolCalls": 9})).max_tool_calls == 9
    )


def test_a_name_of_any_length_gets_a_short_answer() -> None:
    with pytest.raises(LoadError) as error:
        options_for(agent(perdure={"m" * 100_000: 1}))
    assert len(str(error.value)) < 2_000
