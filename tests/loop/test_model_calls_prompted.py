"""The loop with a model that is told of its tools in the prompt: two phases, and what they have of
all other rules.
"""

from __future__ import annotations

from typing import Any

import pytest

from perdure.agents import Agent
from perdure.errors import (
    ExecuteError,
    GuardrailError,
    MaxIterationsError,
    ModelError,
    OutputError,
    RunCancelled,
)
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.json_types import JsonObject
from perdure.loop.limits import PARTIAL_TEXT
from perdure.loop.model_calls import DRAFT_STANDS, NO_NATIVE_TOOLS
from perdure.messages import Message
from perdure.providers.prompted.actions import SECOND
from perdure.providers.prompted.call import ACTS_LATE, ACTS_TOO_LATE, FINAL
from perdure.testing import ScriptedReply, asks, call, says

from ..support.loop_stage import Stage

ECHO = '{"tool": "echo", "arguments": {"text": "hello"}}'
STATEMENT = {"name": "statement", "outputs": [{"name": "sum", "kind": "integer", "required": True}]}


def echo(text: str) -> str:
    return f"Echo: {text}"


def researcher(task: str) -> str:
    return "Qubits."


TOOLS: Any = {"echo": echo, "delegate_to_researcher": researcher}
DECLARED = [
    {
        "kind": "function",
        "name": "echo",
        "description": "Says it again",
        "parameters": [{"name": "text", "kind": "string", "required": True}],
    },
    {
        "kind": "function",
        "name": "delegate_to_researcher",
        "description": "Finds out",
        "parameters": [{"name": "task", "kind": "string", "required": True}],
    },
]


def prompted(*steps: Any, agent: JsonObject | None = None, **named: Any) -> Stage:
    declared = Agent.model_validate({"name": "prompted", "tools": DECLARED, **(agent or {})})
    options = {"tool_protocol": "json", "max_iterations": 5, **named}
    return Stage(
        *[says(step) if isinstance(step, str) else step for step in steps],
        agent=declared,
        tools=TOOLS,
        **options,
    )


def texts(messages: list[Message]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in messages]


async def test_a_tool_then_no_action_then_the_answer() -> None:
    stage = prompted(ECHO, "{}", "The echo returned: hello")
    result = await stage.play()
    assert (result.output, result.iterations, result.is_incomplete) == (
        "The echo returned: hello",
        3,
        False,
    )
    assert stage.types("tool_call_start", "tool_result", "llm_complete", "done") == [
        *("llm_complete", "tool_call_start", "tool_result", "llm_complete", "llm_complete", "done")
    ]
    assert stage.data("tool_call_start") == [{"name": "echo", "arguments": '{"text":"hello"}'}]
    system, *others = texts(stage.seen[2])
    assert others == [
        ("user", "Hi"),
        ("assistant", ECHO),
        ("user", '[Step 1/5] Tool result: "Echo: hello"'),
        ("user", FINAL),
    ]
    assert system == texts(stage.seen[0])[0], "the instructions are the same in both phases"


async def test_the_conversation_keeps_its_native_shape() -> None:
    stage = prompted(f"I will.\n{ECHO}", "{}", "Done")
    result = await stage.play()
    asked, answered = result.messages[2:4]
    assert (asked.text, asked.tool_calls[0].name) == ("I will.", "echo")
    assert answered.metadata["tool_call_id"] == asked.tool_calls[0].id
    assert answered.text == "Echo: hello"
    assert stage.agents[0].tools is None, "nothing is offered natively"


async def test_the_first_of_two_actions_and_a_warning() -> None:
    stage = prompted(f'{ECHO}\n{{"tool": "echo", "arguments": {{"text": "b"}}}}', "{}", "Done")
    await stage.play()
    assert stage.results() == ["Echo: hello"]
    assert stage.said() == [SECOND]


async def test_a_malformed_action_is_a_result_that_says_why() -> None:
    stage = prompted(
        '{"tool": "echo", "arguments": {"text": "hel', '{"agent": "researcher"}', ECHO, "{}", "Done"
    )
    result = await stage.play()
    assert result.output == "Done"
    cut, missing, done = stage.results()
    assert cut.startswith("Invalid action: it is not valid JSON")
    assert (missing, done) == ("Invalid delegation: missing 'task'", "Echo: hello")
    assert texts(stage.seen[2])[-1] == ("user", "[Step 2/5] Invalid delegation: missing 'task'")
    assert stage.types("error") == ["error", "error"]


async def test_an_unknown_tool_and_wrong_arguments() -> None:
    stage = prompted('{"tool": "nope"}', '{"tool": "echo", "arguments": [1]}', "{}", "Done")
    await stage.play()
    unknown, wrong = stage.results()
    assert unknown.startswith("Error: Tool not registered: nope.")
    assert wrong.startswith("Error: Invalid JSON in tool arguments")
    assert texts(stage.seen[1])[-1][1].startswith(
        "[Step 1/5] Tool execution failed: Error: Tool not registered"
    )


async def test_an_unknown_agent_is_told_with_the_names_by_which_agents_are_called() -> None:
    stage = prompted('{"agent": "nobody", "task": "Find out"}', '{"tool": "nothing"}', "{}", "Done")
    await stage.play()
    told = "Error: No such agent: nobody. Available agents: researcher"
    assert texts(stage.seen[1])[-1] == ("user", f"[Step 1/5] Delegation failed: {told}")
    assert (
        stage.results()[1]
        == "Error: Tool not registered: nothing. Available tools: delegate_to_researcher, echo"
    )


@pytest.mark.parametrize("text", ["The answer is 4.", '{"score": 3}', "The score is {3}"])
async def test_any_other_text_leads_to_the_answer(text: str) -> None:
    stage = prompted(text, "It is 4.")
    result = await stage.play()
    assert (result.output, result.iterations) == ("It is 4.", 2)
    assert "assistant" not in [message.role for message in stage.seen[1]], (
        "what was said before is not kept"
    )


@pytest.mark.parametrize("answer", ["", "{}"])
async def test_an_empty_answer_leaves_what_was_said_before(answer: str) -> None:
    stage = prompted("It is 4.", answer)
    assert (await stage.play()).output == "It is 4."
    assert stage.said() == [DRAFT_STANDS]


@pytest.mark.parametrize("answer", ["", "{}"])
async def test_an_empty_answer_is_asked_for_again_where_nothing_was_said_before(
    answer: str,
) -> None:
    stage = prompted("{}", answer, "It is 4.")
    assert (await stage.play()).output == "It is 4."
    assert stage.said() == ["LLM call failed, retrying (attempt 2/3)..."]


async def test_an_action_in_the_place_of_an_answer_is_carried_out() -> None:
    stage = prompted("{}", ECHO, "{}", "Done")
    result = await stage.play()
    assert (result.output, stage.results(), stage.said()) == ("Done", ["Echo: hello"], [ACTS_LATE])
    assert texts(stage.seen[2])[-1] == ("user", '[Step 2/5] Tool result: "Echo: hello"')


@pytest.mark.parametrize("before", ["{}", "So far."])
async def test_an_action_in_the_place_of_an_answer_is_not_carried_out_when_no_step_is_left(
    before: str,
) -> None:
    stage = prompted(ECHO, before, ECHO, "{}", "Done", max_iterations=2, on_limit="partial")
    result = await stage.play()
    said = "" if before == "{}" else f"\n\n{before}"
    assert (result.output, result.is_incomplete, result.iterations) == (
        f"{PARTIAL_TEXT}{said}",
        True,
        3,
    )
    assert (stage.results(), stage.said()) == (["Echo: hello"], [ACTS_TOO_LATE])
    assert [message.role for message in result.messages] == ["system", "user", "assistant", "tool"]
    with pytest.raises(MaxIterationsError, match="Agent loop exceeded 2 iterations"):
        await prompted(ECHO, "{}", ECHO, max_iterations=2).play()
    final = prompted(ECHO, "{}", ECHO, "It is hello.", max_iterations=2, on_limit="final_answer")
    assert (await final.play()).output == "It is hello."


async def test_the_limit_counts_steps_and_not_answers() -> None:
    stage = prompted(ECHO, "{}", "Done", max_iterations=2)
    assert (await stage.play()).iterations == 3
    with pytest.raises(MaxIterationsError, match="exceeded 2 iterations"):
        await prompted(ECHO, ECHO, max_iterations=2).play()


async def test_the_text_of_a_limit() -> None:
    text = "Reached maximum reasoning steps ({max_iterations})"
    stage = prompted(*[ECHO] * 5, on_limit="partial", limit_message=text)
    result = await stage.play()
    assert (result.output, result.is_incomplete) == ("Reached maximum reasoning steps (5)", True)
    native = Stage(
        asks(call("echo", text="a")),
        tools=TOOLS,
        max_iterations=1,
        on_limit="partial",
        limit_message=text,
    )
    assert (await native.play()).output == "Reached maximum reasoning steps (1)"


async def test_a_final_answer_at_the_limit() -> None:
    stage = prompted(ECHO, "It was hello.", max_iterations=1, on_limit="final_answer")
    result = await stage.play()
    assert (result.output, result.is_incomplete) == ("It was hello.", True)
    assert texts(stage.seen[1])[-1] == ("user", FINAL)


async def test_a_message_between_the_phases_is_acted_upon() -> None:
    def no_action() -> ScriptedReply:
        stage.run.steer("Use the echo")
        return says("{}")

    stage = prompted(no_action, ECHO, "{}", "Done")
    result = await stage.play()
    assert (result.output, stage.results()) == ("Done", ["Echo: hello"])
    assert texts(stage.seen[1])[-1] == ("user", "Use the echo")


async def test_a_message_during_the_last_answer_is_handed_back() -> None:
    def answer() -> ScriptedReply:
        stage.run.steer("Once more")
        return says("Hello")

    stage = prompted("{}", answer, max_iterations=1)
    result = await stage.play()
    assert (result.output, result.unread_steering) == ("Hello", ["Once more"])


async def test_declared_outputs_are_asked_for_in_the_answer_alone() -> None:
    stage = prompted(ECHO, "{}", '{"sum": 4}', agent={**STATEMENT, "tools": DECLARED})
    assert (await stage.play()).output == {"sum": 4}
    assert [bool(agent.outputs) for agent in stage.agents] == [False, False, True]


async def test_an_answer_that_does_not_fit_is_corrected_without_acting() -> None:
    stage = prompted(
        "{}", "four", '{"sum": 4}', agent={**STATEMENT, "tools": DECLARED}, max_iterations=1
    )
    assert (await stage.play()).output == {"sum": 4}
    assert texts(stage.seen[2])[-1] == ("user", FINAL)
    with pytest.raises(OutputError):
        await prompted(
            "{}", "four", "five", agent={**STATEMENT, "tools": DECLARED}, output_retries=1
        ).play()


async def test_an_answer_that_fits_is_no_action() -> None:
    outputs = [{"name": "tool", "kind": "string", "required": True}]
    stage = prompted("{}", '{"tool": "echo"}', agent={"outputs": outputs})
    assert (await stage.play()).output == {"tool": "echo"}


async def test_guardrails_judge_actions_and_answers_and_nothing_between() -> None:
    judged: list[str] = []

    def output(message: Message) -> GuardrailResult:
        judged.append(message.text or message.tool_calls[0].name)
        return GuardrailResult(allowed="secret" not in message.text, reason="no", rewrite=None)

    await prompted(ECHO, "a secret thought", "Done", guardrails=Guardrails(output=output)).play()
    assert judged == ["echo", "Done"]
    with pytest.raises(GuardrailError):
        await prompted("a secret thought", "", guardrails=Guardrails(output=output)).play()
    deny = Guardrails(tool=lambda name, arguments: GuardrailResult(allowed=False, reason="no"))
    denied = prompted(ECHO, "{}", "Done", guardrails=deny)
    await denied.play()
    assert denied.results() == ["Tool denied by guardrail: no"]


async def test_a_rewritten_action_is_sent_as_it_was_rewritten() -> None:
    rewrite = Guardrails(output=lambda message: GuardrailResult(allowed=True, rewrite="(withheld)"))
    stage = prompted(f"My secret. {ECHO}", "{}", "Done", guardrails=rewrite)
    await stage.play()
    assert texts(stage.seen[1])[2] == ("assistant", f"(withheld)\n{ECHO}")


async def test_cancelled_between_the_phases() -> None:
    stage = prompted("{}", "never")
    stage.effects.cancel_at = ("llm_complete", 1)
    with pytest.raises(RunCancelled):
        await stage.play()
    assert len(stage.seen) == 1


async def test_each_phase_is_retried_and_counted() -> None:
    busy = ModelError("busy", kind="overloaded", provider="scripted")
    steps = [busy, says("{}", input_tokens=1), busy, says("Hello", input_tokens=2)]
    result = await prompted(*steps).play()
    assert (result.output, result.iterations, result.usage.input_tokens) == ("Hello", 2, 3)


def refusal(
    text: str = "registry.ollama.ai/library/gemma3:4b does not support tools",
) -> ScriptedReply:
    return ScriptedReply(status=400, error={"error": {"message": text, "type": "api_error"}})


async def test_auto_goes_on_in_the_prompt_when_tools_are_refused() -> None:
    stage = prompted(refusal(), ECHO, "{}", "Done", tool_protocol="auto", max_llm_retries=1)
    result = await stage.play()
    assert (result.output, result.iterations, stage.results()) == ("Done", 3, ["Echo: hello"])
    assert [bool(agent.tools) for agent in stage.agents] == [True, False, False, False]
    (status,) = stage.said()
    assert status.startswith(NO_NATIVE_TOOLS)
    assert "does not support tools" in status


async def test_auto_does_not_go_on_when_the_run_was_cancelled_meanwhile() -> None:
    stage = prompted(refusal(), "never", tool_protocol="auto")
    stage.effects.cancel_at = ("status", 1)
    with pytest.raises(RunCancelled):
        await stage.play()
    assert len(stage.seen) == 1


async def test_auto_stays_native_as_long_as_tools_are_taken() -> None:
    stage = prompted(asks(call("echo", text="a")), says("Done"), tool_protocol="auto")
    assert (await stage.play()).output == "Done"
    assert all(agent.tools for agent in stage.agents)


@pytest.mark.parametrize("text", ["Invalid schema for function 'echo'", "the request is too long"])
async def test_auto_does_not_follow_other_errors(text: str) -> None:
    with pytest.raises(ExecuteError):
        await prompted(refusal(text), tool_protocol="auto").play()


async def test_native_runs_do_not_change_their_protocol() -> None:
    with pytest.raises(ExecuteError, match="does not support tools"):
        await prompted(refusal(), tool_protocol="native").play()


@pytest.mark.parametrize("is_guarded", [True, False])
async def test_a_limit_gives_out_no_text_that_the_output_guardrail_has_not_judged(
    is_guarded: bool,
) -> None:
    guardrails = (
        Guardrails(output=lambda message: GuardrailResult(allowed=False, reason="no"))
        if is_guarded
        else None
    )
    draft = says("A secret draft.").model_copy(update={"input_tokens": 5, "output_tokens": 5})
    stage = prompted(draft, "{}", max_total_tokens=10, on_limit="partial", guardrails=guardrails)
    result = await stage.play()
    assert result.output == (PARTIAL_TEXT if is_guarded else f"{PARTIAL_TEXT}\n\nA secret draft.")
