"""Output validators: a function that is given the answer's value, and sends it back or changes
it.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel
from temporalio.client import Client

from perdure import (
    GuardrailError,
    GuardrailResult,
    Guardrails,
    OutputError,
    RunError,
    RunOptions,
    ToolContext,
    agent,
    create_worker,
    invoke_agent_async,
    load_dict,
    start_run,
)
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.testing import ScriptedModel, asks, call, run_in_process, says

from ..support.agents import QUESTION, scripted_agent


class Limits(BaseModel):
    euros: int


class Refund(BaseModel):
    euros: int
    note: str = "none"


def within(refund: Refund, context: ToolContext[Limits]) -> Refund:
    if refund.euros > context.deps.euros:
        raise ValueError(f"at most {context.deps.euros} euros")
    return refund


def modest(value: JsonObject, context: ToolContext[Limits]) -> None:
    if value["euros"] > context.deps.euros:
        raise ValueError(f"at most {context.deps.euros} euros")


def refuse(text: str) -> None:
    raise ValueError("not from here")


def refund(euros: int) -> Any:
    return says(f'{{"euros": {euros}, "note": null}}')


def desk(validator: Any, **more: Any) -> Any:
    return agent(
        "openai/gpt-5", name="desk", output_validator=validator, **{"output_type": Refund, **more}
    )


def test_what_it_refuses_goes_back_to_the_model() -> None:
    result = run_in_process(
        desk(within), model=[refund(9), refund(4)], inputs="?", deps=Limits(euros=5)
    )
    assert (result.output, result.iterations) == (Refund(euros=4), 2)
    assert "- at most 5 euros\n" in result.messages[-2].text
    assert result.messages[-1].text == '{"euros": 4, "note": null}', (
        "what is not changed stays as it was written"
    )
    with pytest.raises(OutputError, match="at most 5 euros"):
        run_in_process(desk(within), model=[refund(9)] * 3, inputs="?", deps=Limits(euros=5))


async def test_it_may_change_the_value() -> None:
    async def rounded(refund: Refund) -> Refund:
        return Refund(euros=refund.euros // 5 * 5, note=refund.note)

    def upper(value: JsonObject) -> JsonObject:
        return {**value, "note": "seen"}

    for validator, expected in ((rounded, Refund(euros=5)), (upper, Refund(euros=9, note="seen"))):
        result = run_in_process(desk(validator), model=[refund(9)], inputs="?")
        assert result.output == expected
    assert run_in_process(desk(lambda value: None), model=[refund(9)], inputs="?").output == Refund(
        euros=9
    )


def test_a_changed_value_must_fit() -> None:
    with pytest.raises(OutputError, match="'many' is not of type 'integer'"):
        run_in_process(desk(lambda value: {"euros": "many"}), model=[refund(9)] * 3, inputs="?")


def test_texts_and_plain_values() -> None:
    def short(text: str) -> str:
        if len(text) > 5:
            raise ValueError("at most 5 characters")
        return text.upper()

    result = run_in_process(
        desk(short, output_type=None), model=[says("much too long"), says("short")], inputs="?"
    )
    assert result.output == "SHORT"
    assert result.messages[2].text.endswith("- at most 5 characters\nAnswer again.")
    doubled = desk(lambda number: number * 2, output_type=int)
    assert run_in_process(doubled, model=[says('{"answer": 4}')], inputs="?").output == 8


def test_it_comes_after_the_guardrail() -> None:
    guardrails = Guardrails(
        output=lambda message: GuardrailResult(allowed=True, rewrite={"euros": 3}),
        validator=lambda value: {"euros": value["euros"] + 1},
    )
    found = run_in_process(desk(None), model=[refund(9)], inputs="?", guardrails=guardrails)
    assert found.output == Refund(euros=4)


async def test_deps_that_it_does_not_expect_are_no_fault_of_the_model(client: Client) -> None:
    with ScriptedModel([refund(4)]) as model:
        clerk = desk(within, connection={"endpoint": model.openai_endpoint})
        with pytest.raises(
            RunError, match="output validator: the run's deps are not of the type Limits"
        ) as refused:
            await invoke_agent_async(clerk, "?", client=client)
    assert (refused.value.kind, model.requests) == ("configuration", [])
    with pytest.raises(GuardrailError, match="the output validator failed: UnfitDepsError"):
        run_in_process(desk(within), model=[refund(4)], inputs="?")


async def test_an_agent_that_takes_over_has_its_own(client: Client) -> None:
    with ScriptedModel([asks("transfer_to_desk", reason="money"), refund(9), refund(4)]) as model:
        endpoint = {"endpoint": model.openai_endpoint}
        payer = desk(within, connection=endpoint)
        front = agent(
            "openai/gpt-5",
            name="front",
            connection=endpoint,
            handoffs=[payer],
            output_validator=refuse,
        )
        paid = await invoke_agent_async(front, "?", client=client, deps=Limits(euros=5))
    assert paid == Refund(euros=4)


async def test_a_worker_has_it_by_the_agent_and_a_file_by_its_name(client: Client) -> None:
    queue = "validators-of-a-worker"
    outputs = [{"name": "euros", "kind": "integer", "required": True}]
    with ScriptedModel([refund(9), refund(4), refund(4)]) as model:
        clerk = desk(within, connection={"endpoint": model.openai_endpoint})
        file = load_dict({**scripted_agent(model, outputs=outputs).model_dump(), "name": "file"})
        guardrails = {"strict": Guardrails(validator=modest)}
        async with create_worker(client, task_queue=queue, tools=[clerk], guardrails=guardrails):
            by_agent = await start_run(client, clerk, "?", task_queue=queue, deps=Limits(euros=5))
            more: Any = {
                "messages": QUESTION,
                "options": {"guardrails": "strict"},
                "deps": Limits(euros=3),
            }
            by_name = await start_run(client, file, task_queue=queue, **more)
            assert (await by_agent.result()).output == Refund(euros=4)
            with pytest.raises(OutputError, match="at most 3 euros"):
                await by_name.result()
    assert any("- at most 5 euros\n" in request.messages[-1].text for request in model.requests)


def no_secret(message: Message) -> GuardrailResult:
    return GuardrailResult(allowed="secret" not in message.text)


async def test_nobody_sees_a_text_that_a_guardrail_has_not_judged(client: Client) -> None:
    replies = [asks(call("look"), text="a secret beside a call"), says("the secret")]
    with ScriptedModel(replies[1:]) as model:
        desk = agent("openai/gpt-5", name="desk", connection={"endpoint": model.openai_endpoint})
        async with create_worker(
            client, task_queue="unseen", guardrails={"strict": Guardrails(output=no_secret)}
        ):
            options: Any = {"guardrails": "strict", "stream": True}
            run = await start_run(client, desk, "?", task_queue="unseen", options=options)
            events = [event async for event in run.stream()]
    assert events[-1].data["kind"] == "guardrail_denied"
    assert "secret" not in repr(events)
    heard: list[Any] = []
    checked: Any = {
        "guardrails": Guardrails(output=no_secret),
        "on_event": lambda *event: heard.append(event),
    }
    for reply in replies:
        with pytest.raises(GuardrailError):
            run_in_process(
                desk, model=[reply], inputs="?", options=RunOptions(stream=True), **checked
            )
    assert "secret" not in repr([event for event in heard if event[0] != "messages_updated"])


@pytest.mark.parametrize("number", ["NaN", "1e400", "-Infinity"])
def test_a_number_that_json_does_not_have_goes_back_to_the_model(number: str) -> None:
    clerk = desk(None, output_type=float)
    replies = [says(f'{{"answer": {number}}}'), says('{"answer": 1.5}')]
    result = run_in_process(clerk, model=replies, inputs="?")
    assert (result.output, result.iterations) == (1.5, 2)
