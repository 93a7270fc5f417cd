"""§13.4: allow, deny and rewrite at the three points, and guardrails that fail."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.agents import Agent
from perdure.errors import GuardrailError
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.json_types import JsonObject
from perdure.messages import Message, ModelReply
from perdure.testing import asks, call, says

from ..support.loop_stage import Stage

COUNTS = Agent.model_validate({"name": "counts", "outputs": [{"name": "n", "kind": "integer"}]})


def allow(*subject: Any) -> GuardrailResult:
    return GuardrailResult(allowed=True)


def deny(*subject: Any) -> GuardrailResult:
    return GuardrailResult(allowed=False, reason="not here")


async def deny_later(*subject: Any) -> GuardrailResult:
    return deny()


def fail(*subject: Any) -> GuardrailResult:
    raise KeyError("rules")


def rewrite(value: Any) -> Any:
    return lambda *subject: GuardrailResult(allowed=True, rewrite=value)


DENIERS = pytest.mark.parametrize(
    ("guardrail", "reason"),
    [
        (deny, "not here"),
        (deny_later, "not here"),
        (fail, "the {point} guardrail failed: KeyError: 'rules'"),
        (rewrite(7), "the {point} guardrail failed: its rewrite must be {expected}, got 7"),
        (
            lambda *subject: "yes",
            "the {point} guardrail failed: TypeError: expected a GuardrailResult, got 'yes'",
        ),
    ],
    ids=["plain", "async", "raises", "rewrites to nonsense", "no verdict"],
)


@DENIERS
async def test_input_denied(guardrail: Any, reason: str) -> None:
    reason = reason.format(point="input", expected="a list of messages")
    stage = Stage(guardrails=Guardrails(input=guardrail))
    with pytest.raises(GuardrailError) as failure:
        await stage.play()
    assert failure.value.reason == reason
    assert str(failure.value) == f"Input guardrail denied: {reason}"
    assert stage.events[:1] == [("error", {"message": f"Input guardrail denied: {reason}"})]
    assert stage.types() == ["error", "failed"]
    assert (stage.seen, failure.value.iterations, len(failure.value.messages)) == ([], 0, 2)


@pytest.mark.parametrize("guardrail", [deny, deny_later, fail])
async def test_output_denied(guardrail: Any) -> None:
    stage = Stage(says("A secret"), guardrails=Guardrails(output=guardrail))
    with pytest.raises(GuardrailError, match="^Output guardrail denied: ") as failure:
        await stage.play()
    assert stage.types() == ["llm_start", "llm_complete", "error", "failed"]
    assert stage.data("error") == [{"message": str(failure.value)}]
    assert failure.value.iterations == 1
    assert len(failure.value.messages) == 2, "what was denied is not kept"


@DENIERS
async def test_tool_denied(guardrail: Any, reason: str) -> None:
    reason = reason.format(point="tool", expected="an object of arguments")
    ran: list[str] = []
    stage = Stage(
        asks("wipe"),
        says("I may not"),
        tools={"wipe": lambda: ran.append("wipe")},
        guardrails=Guardrails(tool=guardrail),
    )
    result = await stage.play()
    assert result.output == "I may not"
    assert ran == []
    assert stage.results() == [f"Tool denied by guardrail: {reason}"]
    assert stage.types("tool_call_start", "tool_result", "error") == [
        "tool_call_start",
        "tool_result",
    ]
    assert stage.data("tool_result") == [
        {"name": "wipe", "result": f"Tool denied by guardrail: {reason}", "isDenied": True}
    ]
    assert [
        message.metadata.get("error_kind") for message in result.messages if message.role == "tool"
    ] == ["denied"]


async def test_a_denied_tool_does_not_keep_others_from_running() -> None:
    def judge(name: str, arguments: JsonObject) -> GuardrailResult:
        return GuardrailResult(allowed=name != "wipe", reason="no wiping")

    tools = {"wipe": lambda: "wiped", "look": lambda: "seen"}
    for parallel in (False, True):
        stage = Stage(
            asks(call("wipe"), call("look")),
            says("Done"),
            tools=tools,
            guardrails=Guardrails(tool=judge),
            parallel_tool_calls=parallel,
        )
        await stage.play()
        assert stage.results() == ["Tool denied by guardrail: no wiping", "seen"]


async def test_what_each_guardrail_is_given() -> None:
    given: JsonObject = {}

    def note(point: str) -> Any:
        def judge(*subject: Any) -> GuardrailResult:
            given.setdefault(point, []).append(subject)
            return GuardrailResult(allowed=True)

        return judge

    stage = Stage(
        asks(call("look", at="sky"), text="Let me see"),
        says("Blue"),
        tools={"look": lambda at: "🟦"},
        guardrails=Guardrails(input=note("input"), output=note("output"), tool=note("tool")),
    )
    await stage.play()
    first, second, third, fourth, fifth = stage.messages
    assert given == {
        "input": [([first, second],), ([first, second, third, fourth],)],
        "output": [(third,), (fifth,)],
        "tool": [("look", {"at": "sky"})],
    }


async def test_a_guardrail_changes_nothing_by_changing_what_it_is_given() -> None:
    def meddle(messages: list[Message]) -> GuardrailResult:
        messages[-1].parts.clear()
        messages.clear()
        return GuardrailResult(allowed=True)

    def meddle_with(name: str, arguments: JsonObject) -> GuardrailResult:
        arguments["at"].append("gone")
        return GuardrailResult(allowed=True)

    stage = Stage(
        asks("look", at=["sky"]),
        says("Blue"),
        tools={"look": lambda at: f"{at}"},
        guardrails=Guardrails(input=meddle, tool=meddle_with),
    )
    await stage.play()
    assert [message.text for message in stage.messages] == [
        "Be brief.",
        "Hi",
        "",
        "['sky']",
        "Blue",
    ]


async def test_input_rewritten() -> None:
    def redact(messages: list[Message]) -> GuardrailResult:
        kept = [
            message.model_copy(update={"parts": Message.user("[redacted]").parts})
            for message in messages
        ]
        return GuardrailResult(allowed=True, rewrite=kept)

    stage = Stage(says("Fine"), guardrails=Guardrails(input=redact))
    await stage.play()
    assert [message.text for message in stage.seen[0]] == ["[redacted]"] * 2
    assert [message.text for message in stage.messages] == ["[redacted]", "[redacted]", "Fine"]
    assert stage.types() == [
        "messages_updated",
        "llm_start",
        "llm_complete",
        "messages_updated",
        "done",
    ]


async def test_an_input_rewrite_that_changes_nothing_is_not_recorded() -> None:
    def same(messages: list[Message]) -> GuardrailResult:
        return GuardrailResult(allowed=True, rewrite=[message.model_dump() for message in messages])

    stage = Stage(says("Fine"), guardrails=Guardrails(input=same))
    await stage.play()
    assert stage.types() == ["llm_start", "llm_complete", "messages_updated", "done"]


async def test_output_rewritten() -> None:
    answer = Message.assistant("Call 555-1234")
    answer.metadata["provider_content"] = {"api": "anthropic", "content": []}
    stage = Stage(
        ModelReply(message=answer), guardrails=Guardrails(output=rewrite("Call [number]"))
    )
    result = await stage.play()
    assert result.output == "Call [number]"
    assert stage.messages[-1] == Message.assistant("Call [number]")
    assert stage.data("done") == [{"response": "Call [number]"}]


async def test_output_rewritten_beside_tool_calls_keeps_the_calls() -> None:
    stage = Stage(
        asks(call("look"), text="My key is abc"),
        says("Done"),
        tools={"look": lambda: "seen"},
        guardrails=Guardrails(output=rewrite("…")),
    )
    await stage.play()
    assert stage.messages[2].text == "…"
    assert stage.messages[2].tool_calls == [call("look")]


@pytest.mark.parametrize("rewritten", ['{"n": 2}', {"n": 2}], ids=["JSON text", "object"])
async def test_structured_output_rewritten(rewritten: Any) -> None:
    stage = Stage(says('{"n": 1}'), agent=COUNTS, guardrails=Guardrails(output=rewrite(rewritten)))
    assert (await stage.play()).output == {"n": 2}
    assert stage.data("done") == [{"response": '{"n": 2}'}]


async def test_tool_arguments_rewritten() -> None:
    stage = Stage(
        asks("look", at="sun"),
        says("Done"),
        tools={"look": lambda at: f"saw the {at}"},
        guardrails=Guardrails(tool=rewrite({"at": "moon"})),
    )
    await stage.play()
    assert stage.results() == ["saw the moon"]
    assert stage.data("tool_call_start") == [{"name": "look", "arguments": '{"at": "sun"}'}]


@pytest.mark.parametrize("verdict", [True, {"allowed": True}, GuardrailResult(allowed=True)])
async def test_forms_of_a_verdict(verdict: Any) -> None:
    stage = Stage(says("Fine"), guardrails=Guardrails(input=lambda messages: verdict))
    assert (await stage.play()).output == "Fine"
