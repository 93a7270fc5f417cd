"""Answers that are not one object with members: unions, lists, dicts and plain values, from a type
and from a file.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

import perdure
from perdure import (
    GuardrailResult,
    Guardrails,
    agent_to_dict,
    load_dict,
    process_response,
)
from perdure.client.output_type import outputs_of
from perdure.json_types import JsonObject
from perdure.schema import STRICT_ANSWER, answer_schema
from perdure.testing import run_in_process, says

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage


class Refund(BaseModel):
    kind: Literal["refund"] = "refund"
    euros: int
    note: str = "none"


class Question(BaseModel):
    kind: Literal["question"] = "question"
    text: str


class Mood(enum.Enum):
    GOOD = "good"
    BAD = "bad"


@dataclass
class Place:
    city: str


class WorkerInventory(TypedDict):
    counts: dict[str, int]


Told = Annotated[Refund | Question, Field(discriminator="kind")]
AGENT = load_dict({"model": "m", "instructions": "Answer.\nuser:\nWell?"})
REFUND = '{"kind": "refund", "euros": 5, "note": null}'


@pytest.mark.parametrize(
    ("output_type", "text", "expected"),
    [
        (Refund | Question, f'{{"answer": {REFUND}}}', Refund(euros=5)),
        (
            Refund | Question,
            '{"answer": {"kind": "question", "text": "Why?"}}',
            Question(text="Why?"),
        ),
        (Told, '{"answer": {"kind": "question", "text": "Why?"}}', Question(text="Why?")),
        (Refund | str, '{"answer": "Nothing to refund."}', "Nothing to refund."),
        (Refund | str, "Nothing to refund.", "Nothing to refund."),
        (Refund | None, '{"answer": null}', None),
        (list[Place], '{"answer": [{"city": "Oslo"}]}', [Place("Oslo")]),
        (list[Refund], f"[{REFUND}]", [Refund(euros=5)]),
        (dict[str, int], '{"answer": [{"key": "a", "value": 1}]}', {"a": 1}),
        (dict[str, Place], '{"answer": {"a": {"city": "Oslo"}}}', {"a": Place("Oslo")}),
        (WorkerInventory, '{"counts": [{"key": "nuts", "value": 3}]}', {"counts": {"nuts": 3}}),
        (int, '{"answer": 7}', 7),
        (Annotated[int, Field(le=9)], '{"answer": 7}', 7),
        (float, '{"answer": 0.5}', 0.5),
        (bool, "true", True),
        (Literal["yes", "no"], '{"answer": "no"}', "no"),
        (Mood, '{"answer": "bad"}', Mood.BAD),
    ],
)
def test_the_answer_has_the_type(output_type: Any, text: str, expected: Any) -> None:
    events: JsonObject = {}
    result = run_in_process(
        AGENT, model=[says(text)], output_type=output_type, on_event=events.__setitem__
    )
    assert result.output == expected
    assert type(result.output) is type(expected)
    assert result.iterations == 1
    assert "answer" not in events["done"]["response"]


@pytest.mark.parametrize(
    ("output_type", "text", "told"),
    [
        (
            Refund | Question,
            '{"answer": {"kind": "refund", "euros": "x"}}',
            "$.answer.euros: 'x' is not",
        ),
        (
            list[Refund],
            '{"answer": [{"euros": true}]}',
            "$.answer[0].euros: True is not of type 'integer'",
        ),
        (
            dict[str, int],
            '{"answer": [{"key": "a", "value": "x"}]}',
            "$.answer.a: 'x' is not of type 'integer'",
        ),
        (
            set[Annotated[int, Field(le=9)]],
            "[10]",
            "$.answer[0]: Input should be less than or equal to 9",
        ),
        (Literal["yes", "no"], "maybe", "$.answer: 'maybe' is not one of ['yes', 'no']"),
        (int, "It is hot.", "$.answer: 'It is hot.' is not of type 'integer'"),
    ],
)
def test_the_model_is_told_what_is_wrong(output_type: Any, text: str, told: str) -> None:
    with pytest.raises(perdure.OutputError) as raised:
        run_in_process(
            AGENT, model=[says(text)] * 2, output_type=output_type, options={"output_retries": 1}
        )
    assert told in str(raised.value)
    assert told in raised.value.messages[-2].text


@pytest.mark.parametrize(
    "output_type",
    [Refund | Question, Told, list[Refund], dict[str, Refund], int, Mood, WorkerInventory],
)
def test_the_schema_is_one_that_strict_apis_take(output_type: Any) -> None:
    schema = answer_schema(outputs_of(output_type), STRICT_ANSWER)
    assert schema["type"] == "object"
    text = json.dumps(schema)
    assert "oneOf" not in text
    assert text.count('"type": "object"') == text.count('"additionalProperties": false')


OUTPUT = {
    "kind": "array",
    "items": {"kind": "object", "properties": {"city": {"kind": "string", "required": True}}},
}


async def test_from_a_file(stage: Stage, scripted: Scripted) -> None:
    model = scripted([says('{"answer": [{"town": 1}]}'), says('{"answer": [{"city": "Oslo"}]}')])
    metadata = {"perdure": {"output": OUTPUT}}
    agent = load_dict(agent_to_dict(scripted_agent(model)) | {"metadata": metadata})
    assert load_dict(agent_to_dict(agent)) == agent
    async with stage.worker():
        run = await stage.start(agent)
        result = await run.result()
        events = await run.events()
    assert result.output == [{"city": "Oslo"}]
    assert events[-1].data["response"] == '[{"city": "Oslo"}]'
    assert "$.answer[0]: 'city' is a required property" in result.messages[-2].text
    assert '"required": ["answer"]' in json.dumps(model.requests[0].body)


def test_a_guardrail_may_rewrite_it() -> None:
    def judge(message: perdure.Message) -> GuardrailResult:
        return GuardrailResult(
            allowed=True, rewrite={"answer": [*json.loads(message.text)["answer"], 3]}
        )

    guardrails = Guardrails(output=judge)
    result = run_in_process(
        AGENT, model=[says('{"answer": [1]}')], output_type=list[int], guardrails=guardrails
    )
    assert (result.output, result.messages[-1].text) == ([1, 3], "[1, 3]")


def test_a_response_is_read_without_a_run() -> None:
    agent = load_dict({"model": "m", "metadata": {"perdure": {"output": OUTPUT}}})
    response = {
        "choices": [{"message": {"role": "assistant", "content": '{"answer": [{"city": "Oslo"}]}'}}]
    }
    assert process_response(agent, response) == [{"city": "Oslo"}]
