"""Other models in the place of one that refuses or stays away: when, which, and what is told of
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure import load_dict
from perdure.agents import Agent
from perdure.errors import ExecuteError, ModelError
from perdure.messages import Message, ModelReply
from perdure.options import RunOptions
from perdure.testing import ScriptedReply, asks, call, says

from ..support.loop_stage import Clocked, fails

Answers = dict[str, list[Any]]


def agent(*fallback: str) -> Agent:
    tools = [{"name": "f", "kind": "function"}]
    model = {"id": "a", "fallback": list(fallback)}
    return load_dict({"name": "n", "model": model, "tools": tools, "instructions": "user:\nHi"})


def model_of(
    answers: Answers, called: list[str]
) -> Callable[[Agent, list[Message]], ScriptedReply | ModelReply]:
    """What each model does when it is called, in turn; the last outcome repeats."""

    def model(calling: Agent, messages: list[Message]) -> ScriptedReply | ModelReply:
        assert calling.model is not None
        called.append(calling.model.id)
        of_model = answers[calling.model.id]
        said = of_model.pop(0) if len(of_model) > 1 else of_model[0]
        if isinstance(said, ModelError):
            raise said
        reply: ScriptedReply = said
        return reply

    return model


def played(answers: Answers, *fallback: str, **options: Any) -> tuple[Clocked, list[str]]:
    called: list[str] = []
    run = Clocked(
        agent(*fallback),
        model=model_of(answers, called),
        tools={"f": lambda: "done"},
        options=RunOptions(**options),
    )
    return run, called


@pytest.mark.parametrize(
    ("kind", "attempts"),
    [
        ("authentication", 1),
        ("quota_exhausted", 1),
        ("not_found", 1),
        ("context_length", 1),
        ("unsupported", 1),
        ("refusal", 1),
        ("configuration", 1),
        ("overloaded", 3),
        ("timeout", 3),
        ("rate_limit", 3),
    ],
)
async def test_another_model_is_called(kind: str, attempts: int) -> None:
    run, called = played({"a": [fails(kind)], "b": [says("from b")]}, "b", tool_protocol="native")
    assert (await run.run()).output == "from b"
    assert called == ["a"] * attempts + ["b"]
    told = [
        event.data for event in run.effects.log.page(0).events if event.type == "model_fallback"
    ]
    [data] = told
    assert (data["failed"], data["kind"], data["model"]) == ("openai/a", kind, "openai/b")
    assert "it broke" in data["message"]
    [complete] = [
        event.data for event in run.effects.log.page(0).events if event.type == "llm_complete"
    ]
    assert complete["model"] == "openai/b"


async def test_a_request_that_is_wrong_is_not_passed_on() -> None:
    run, called = played({"a": [fails("bad_request")], "b": [says("no")]}, "b")
    with pytest.raises(ExecuteError, match="it broke"):
        await run.run()
    assert called == ["a"]


async def test_a_long_wait_is_not_waited_for() -> None:
    run, called = played({"a": [fails("rate_limit", retry_after=3600)], "b": [says("b")]}, "b")
    assert (await run.run()).output == "b"
    assert (called, run.effects.waited) == (["a", "b"], [])


async def test_the_last_model_waits_for_its_rate_limit() -> None:
    run, called = played(
        {"a": [fails("permission")], "b": [fails("rate_limit", retry_after=90), says("b")]}, "b"
    )
    assert (await run.run()).output == "b"
    assert (called, run.effects.waited) == (["a", "b", "b"], [90])


async def test_the_run_stays_with_the_model_that_answers_and_comes_back_when_that_fails() -> None:
    answers = {
        "a": [fails("authentication"), says("a again")],
        "b": [asks(call("f", "1")), fails("quota_exhausted")],
    }
    run, called = played(answers, "b")
    assert (await run.run()).output == "a again"
    assert called == ["a", "b", "b", "a"]


async def test_when_all_fail_the_error_names_each() -> None:
    run, called = played(
        {"a": [fails("permission", "no a")], "b": [fails("not_found", "no b")]}, "b"
    )
    with pytest.raises(
        ExecuteError, match=r"no b.*The models before it: openai/a: LLM call failed: no a"
    ) as caught:
        await run.run()
    assert (called, caught.value.reason) == (["a", "b"], "not_found")
