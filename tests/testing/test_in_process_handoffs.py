"""A run goes on as another agent: what stays, what changes, and what becomes of other calls of the
reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import perdure
from perdure import GuardrailResult, Guardrails, ToolContext
from perdure.agents import Agent
from perdure.errors import ConfigurationError, LoadError, MaxIterationsError, RunError
from perdure.loop.tool_round import SECOND_HANDOFF
from perdure.messages import Message
from perdure.protocol.run import RunInput
from perdure.settings.agent_file import options_after_handoff
from perdure.testing import ScriptedReply, asks, call, run_in_process, says


class Refund(BaseModel):
    euros: int


def look_up(order: str) -> str:
    """Look up an order."""
    return f"{order}: 12 euros"


def refund(order: str) -> str:
    """Refund an order."""
    return f"{order} is refunded"


def desk(**more: Any) -> Agent:
    """Triage hands over to billing, which may hand back."""
    billing = perdure.agent(
        "anthropic/b",
        name="billing",
        instructions="You bill.",
        tools=[refund],
        handoffs=["triage"],
        **more,
    )
    return perdure.agent(
        "openai/t", name="triage", instructions="You sort.", tools=[look_up], handoffs=[billing]
    )


class Told:
    """A model that notes what it was called with."""

    def __init__(self, *replies: ScriptedReply) -> None:
        self._replies = list(replies)
        self.seen: list[tuple[str, str, list[str]]] = []

    def __call__(self, agent: Agent, messages: Sequence[Message]) -> ScriptedReply:
        tools = sorted(tool.name for tool in agent.tools or ())
        self.seen.append((agent.models[0].name, messages[0].text, tools))
        return self._replies[len(self.seen) - 1]


def transfer(id: str = "call_1", to: str = "billing", reason: str = "a refund") -> Any:
    return call(f"transfer_to_{to}", id, reason=reason)


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


TRIAGE = ("openai/t", "You sort.", ["look_up", "transfer_to_billing"])
BILLING = ("anthropic/b", "You bill.", ["refund", "transfer_to_triage"])


def test_the_same_run_goes_on_as_the_other_agent_and_comes_back() -> None:
    events: list[tuple[str, Any]] = []
    back = transfer("call_3", "triage", "")
    model = Told(
        asks(transfer()),
        asks(call("refund", "call_2", order="A")),
        asks(back),
        says("Anything else?"),
    )
    result = run_in_process(
        desk(),
        inputs="Refund A",
        model=model,
        on_event=lambda type, data: events.append((type, data)),
    )
    assert model.seen == [TRIAGE, BILLING, BILLING, TRIAGE]
    assert (result.agent, result.iterations, result.output) == ("triage", 4, "Anything else?")
    assert texts(result.messages) == [
        *(
            "You sort.",
            "Refund A",
            "",
            "The agent billing goes on with the conversation from here.",
        ),
        *(
            "",
            "A is refunded",
            "",
            "The agent triage goes on with the conversation from here.",
            "Anything else?",
        ),
    ]
    handoffs = [data for type, data in events if type == "handoff"]
    assert handoffs == [{"name": "billing", "reason": "a refund"}, {"name": "triage", "reason": ""}]
    assert [type for type, _ in events].count("done") == 1


@pytest.mark.parametrize("parallel", [False, True])
def test_calls_beside_a_transfer_are_answered_and_a_second_transfer_is_not_taken(
    parallel: bool,
) -> None:
    other = perdure.agent("openai/o", name="other", instructions="You wait.")
    first = desk()
    both = perdure.agent(
        "openai/t", name="both", instructions="You sort.", tools=[look_up], handoffs=[other, first]
    )
    calls = (
        call("look_up", "call_1", order="A"),
        transfer("call_2", "other"),
        transfer("call_3", "triage"),
        call("look_up", "call_4", order="B"),
    )
    model = Told(asks(*calls), says("Done."))
    result = run_in_process(
        both, inputs="A?", model=model, options={"parallel_tool_calls": parallel}
    )
    assert texts(result.messages)[3:7] == [
        "A: 12 euros",
        "The agent other goes on with the conversation from here.",
        SECOND_HANDOFF.format("triage"),
        "B: 12 euros",
    ]
    assert model.seen[1] == ("openai/o", "You wait.", [])
    assert result.agent == "other"


@pytest.mark.parametrize("parallel", [False, True])
def test_where_the_first_transfer_is_denied_the_second_is_not_taken_either(
    parallel: bool,
) -> None:
    """Nobody is asked about the second; the model may call it again, alone."""
    judged: list[str] = []

    def judge(name: str, arguments: Any) -> GuardrailResult:
        judged.append(name)
        return GuardrailResult(allowed=name != "transfer_to_other", reason="stay")

    other = perdure.agent("openai/o", name="other", instructions="You wait.")
    both = perdure.agent(
        "openai/t", name="both", instructions="You sort.", handoffs=[other, desk()]
    )
    calls = asks(transfer("call_1", "other"), transfer("call_2", "triage"))
    model = Told(calls, asks(transfer("call_3", "triage")), says("Done."))
    result = run_in_process(
        both,
        inputs="A?",
        model=model,
        guardrails=Guardrails(tool=judge),
        options={"parallel_tool_calls": parallel},
    )
    assert judged == ["transfer_to_other", "transfer_to_triage"]
    assert texts(result.messages)[4] == SECOND_HANDOFF.format("triage")
    assert "stay" in texts(result.messages)[3]
    assert result.agent == "triage"


def test_budgets_stay() -> None:
    model = Told(asks(transfer()), asks(transfer("call_2", "triage")), says("Never."))
    with pytest.raises(MaxIterationsError) as error:
        run_in_process(desk(), inputs="Refund", model=model, options={"max_iterations": 2})
    assert error.value.iterations == 2
    assert model.seen == [TRIAGE, BILLING]


def test_a_transfer_does_not_change_what_the_starter_has_chosen(tmp_path: Path) -> None:
    for name, own in (
        ("triage", "guardrails: strict\n    handoffs: [billing.prompty]"),
        ("billing", "guardrails: lax"),
    ):
        text = (
            f"---\nname: {name}\nmodel: openai/gpt-5\nmetadata:\n  perdure:\n    "
            f"{own}\n---\nsystem:\nHi.\n"
        )
        (tmp_path / f"{name}.prompty").write_text(text)
    first, second = (perdure.load(tmp_path / f"{name}.prompty") for name in ("triage", "billing"))
    for given, then in (({}, "lax"), ({"guardrails": "strict", "context_budget": 9000}, "strict")):
        recorded = RunInput.model_validate(perdure.run_input(first, options=given))
        after = options_after_handoff(recorded.options, first, second, recorded.given)
        assert (after.guardrails, after.context_budget) == (then, given.get("context_budget"))
        assert options_after_handoff(after, second, first, recorded.given).guardrails == "strict"


FILE = """---
name: {name}
model: {{id: {name}, provider: openai}}
metadata:
  perdure:
    handoffs: [{to}]
    {more}
---
system:
You are {name} of {{{{shop}}}}.

user:
{{{{question}}}}
"""


def test_files_hand_over_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    more = "{name: back, path: ../first.prompty, description: The first.}"
    (tmp_path / "first.prompty").write_text(
        FILE.format(name="first", to="more/second.prompty", more="maxIterations: 3")
    )
    (tmp_path / "more" / "second.prompty").write_text(
        FILE.format(name="second", to=more, more="maxResult: 10")
    )
    model = Told(
        asks(transfer("call_1", "second")), asks(transfer("call_2", "back")), says("Done.")
    )
    result = run_in_process(
        tmp_path / "first.prompty", inputs={"shop": "Bees", "question": "Well?"}, model=model
    )
    assert [(name, told) for name, told, _ in model.seen] == [
        ("openai/first", "You are first of Bees."),
        ("openai/second", "You are second of Bees."),
        ("openai/first", "You are first of Bees."),
    ]
    assert texts(result.messages)[1] == "Well?"


def test_what_can_t_be_handed_over_to_is_said_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "first.prompty"
    for to, problem in (
        ("gone.prompty", "there is no file 'gone.prompty' of an agent to hand over to"),
        ("{name: x}", "expected the path of a .prompty file, or"),
        ("{name: 'a b', path: first.prompty}", "expected a name of at most 52 letters"),
    ):
        path.write_text(FILE.format(name="first", to=to, more=""))
        with pytest.raises(LoadError, match=problem):
            run_in_process(
                path, inputs={"shop": "Bees", "question": "Well?"}, model=[says("Never.")]
            )
    for name, problem in (
        ("trage", r"no agent 'trage' to hand over to \(did you mean 'triage'\?\)"),
        (
            "team/billing.prompty",
            r"no agent 'team/billing' .*the path of a file, which needs base_dir=",
        ),
    ):
        lost = perdure.agent("openai/l", name="lost", handoffs=[name])
        with pytest.raises(LoadError, match=problem):
            run_in_process(
                perdure.agent("openai/t", name="triage", handoffs=[lost]),
                inputs="?",
                model=[says("Never.")],
            )
    needy = perdure.agent("openai/n", name="needy", instructions="You know {{secret}}.")
    with pytest.raises(
        ConfigurationError, match="the prompt of the agent 'needy' needs the input secret"
    ):
        run_in_process(
            perdure.agent("openai/t", name="t", handoffs=[needy]),
            inputs="?",
            model=[says("Never.")],
        )


def test_two_agents_of_one_name_are_refused() -> None:
    twins = [perdure.agent("openai/a", name="twin", instructions=text) for text in ("One.", "Two.")]
    both = r"the name 'twin', openai/a \('One\.'\) and openai/a \('Two\.'\): give each its own name"
    with pytest.raises(ConfigurationError, match=both):
        perdure.agent("openai/t", handoffs=twins)
    with pytest.raises(ConfigurationError, match=r"the name 'agent', .*'second'\) and .*'first'\)"):
        perdure.agent(
            "openai/t",
            instructions="first",
            handoffs=[perdure.agent("openai/t", instructions="second")],
        )
    billing = perdure.agent("openai/t", name="billing", handoffs=[twins[0]])
    with pytest.raises(ConfigurationError, match="the name 'twin'"):
        perdure.agent("openai/t", name="twin", handoffs=[billing])
    with pytest.raises(ConfigurationError, match="a tool 'transfer_to_billing' already"):
        perdure.agent("openai/t", handoffs=[billing, "billing"])
    with pytest.raises(TypeError, match="os.PathLike object, not int"):
        perdure.agent("openai/t", handoffs=[7])  # type: ignore[list-item]


def test_a_name_that_models_do_not_take_is_made_into_one(tmp_path: Path) -> None:
    billing = perdure.agent(
        "openai/b", name="Billing Agent", handoffs=["Triage Desk"], base_dir=tmp_path
    )
    triage = perdure.agent("openai/t", name="Triage Desk", handoffs=[billing], base_dir=tmp_path)
    model = Told(
        asks(transfer(to="Billing_Agent")), asks(transfer("call_2", "Triage_Desk")), says("Done.")
    )
    assert run_in_process(triage, inputs="?", model=model).agent == "Triage Desk"


def test_deps_that_a_later_agents_tool_does_not_expect_are_refused_at_the_start() -> None:
    def pay(context: ToolContext[Refund]) -> str:
        return f"{context.deps.euros} euros"

    billing = perdure.agent("openai/b", name="billing", tools=[pay])
    triage = perdure.agent("openai/t", name="triage", handoffs=[billing])
    with pytest.raises(
        RunError, match="billing: tool 'pay': the run's deps are not of the type Refund"
    ) as refused:
        run_in_process(
            triage, [Message.user("?")], model=[says("Hello.")], tools=[pay], deps={"dollars": 1}
        )
    assert refused.value.iterations == 0
