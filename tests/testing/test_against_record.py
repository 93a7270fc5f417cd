"""A recorded run's model calls are made anew, and answered from the record."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from perdure.messages import ToolCall, ToolResult
from perdure.protocol.run import RecordedOptions
from perdure.testing import (
    Comparison,
    Recording,
    ScriptedModel,
    ScriptedReply,
    asks,
    call,
    rerun,
    says,
)
from perdure.testing.direct_model import read_reply
from perdure.testing.recording import RecordedCall, RecordedReply, call_key

from ..support.agents import QUESTION, Scripted, scripted_agent, tool_texts

FIRST = asks(call("search", "a", query="cats", limit=3), call("read", "b", page=1))
RECORDED = [
    FIRST,
    asks(call("read", "c", page=2)),
    says("Cats sleep.", input_tokens=10, output_tokens=3),
]


def recording(
    model: ScriptedModel, replies: Iterable[ScriptedReply] = RECORDED, **fields: Any
) -> Recording:
    """A run that has had these replies, and `NAME ID` as the result of each call."""
    agent = scripted_agent(
        model, ["search", "read"], instructions="system:\nYou are helpful.\nuser:\nWhat is it?"
    )
    known = Recording(
        "run-1", agent, RecordedOptions(), {}, list(QUESTION), status="done", output="Cats sleep."
    )
    for iteration, reply in enumerate(replies, 1):
        known.replies.append(RecordedReply(iteration, read_reply(agent, reply), 0.5))
        for each in reply.tool_calls:
            known.calls.append(
                RecordedCall(iteration, each, ToolResult.of_text(f"{each.name} {each.id}"))
            )
    for name, value in fields.items():
        setattr(known, name, value)
    return known


async def compared(scripted: Scripted, *replies: Any, **fields: Any) -> Comparison:
    model = scripted(list(replies))
    return await rerun(recording(model, **fields), options={"retry_base_seconds": 0.0})


async def test_the_same_path_in_other_words(scripted: Scripted) -> None:
    """The order within a reply does not count, nor how arguments are spelt, nor ids."""
    spelt = ToolCall(
        id="z", name="search", arguments='{ "limit": 3.0, "query": "cats", "more": null }'
    )
    model = scripted(
        [
            asks(call("read", "y", page=1), spelt),
            asks("read", page=2),
            says("They do.", output_tokens=4),
        ]
    )
    found = await rerun(
        recording(model), model="other", prices={"openai/other": {"input": 1, "output": 250_000}}
    )
    assert (found.path, found.deviation, found.matched) == ("same", None, 3)
    assert (found.recorded_model, found.model) == ("openai/scripted", "openai/other")
    assert [request.body["model"] for request in model.requests] == ["other"] * 3
    results = tool_texts(model.requests[-1].messages)
    assert results == ["read b", "search a", "read c"]
    assert (found.recorded.model_calls, found.rerun.model_calls) == (3, 3)
    assert (found.recorded.output_tokens, found.recorded.seconds) == (3, 1.5)
    assert found.recorded.cost_usd is None
    assert found.rerun.cost_usd is not None
    assert found.rerun.cost_usd >= 1
    assert (found.recorded_end, found.rerun_end) == (
        {"output": "Cats sleep."},
        {"output": "They do."},
    )
    assert json.loads(json.dumps(found.as_json()))["path"] == "same"


async def test_a_call_that_the_record_does_not_have_ends_it(scripted: Scripted) -> None:
    found = await compared(scripted, FIRST, asks("delete", page=2), says("never"))
    assert (found.path, found.matched, found.rerun_end) == ("diverged", 2, None)
    assert found.deviation is not None
    assert (found.deviation.why, found.deviation.iteration) == ("unmatched", 2)
    assert found.deviation.asked == [{"name": "delete", "arguments": '{"page": 2}'}]
    assert [each["name"] for each in found.deviation.recorded] == ["read"]
    assert (found.recorded.model_calls, found.rerun.model_calls) == (2, 2)
    assert (found.recorded.tool_calls, found.rerun.tool_calls) == (2, 2)


@pytest.mark.parametrize(
    ("replies", "why", "left"),
    [
        ([FIRST, says("Early.")], "unasked", ["c"]),
        (
            [asks(call("search", query="cats", limit=3)), asks("read", page=2), says(".")],
            "skipped",
            ["b"],
        ),
    ],
)
async def test_less_than_recorded_is_another_path(
    scripted: Scripted, replies: Any, why: str, left: list[str]
) -> None:
    found = await compared(scripted, *replies)
    assert found.deviation is not None
    assert found.deviation.why == why
    assert len(found.deviation.recorded) == len(left)
    assert found.rerun_end is not None


async def test_several_rounds_in_one_reply_and_one_round_in_several(scripted: Scripted) -> None:
    [search, read] = FIRST.tool_calls
    assert (
        await compared(scripted, asks(search, read, call("read", "c", page=2)), says("."))
    ).path == "same"
    assert (
        await compared(scripted, asks(search), asks(read), asks("read", page=2), says("."))
    ).path == "same"


async def test_what_was_refused_is_refused_again(scripted: Scripted) -> None:
    """Unknown tools, arguments that are no JSON, denials: the record has what the model was
    told.
    """
    odd = asks(
        ToolCall(id="a", name="nothing", arguments="{}"),
        ToolCall(id="b", name="read", arguments="{nonsense"),
    )
    model = scripted([odd, says("done")])
    found = await rerun(recording(model, [odd, says("done")]))
    assert found.path == "same"
    assert model.requests[-1].messages[-2].text == "nothing a"
    assert "Invalid JSON" in model.requests[-1].messages[-1].text


async def test_a_failure_of_the_provider_and_the_same_failure(scripted: Scripted) -> None:
    found = await compared(scripted, FIRST, ScriptedReply(status=401))
    assert found.deviation is not None
    assert (found.deviation.why, found.deviation.iteration) == ("failed", 1)
    assert found.rerun_end is not None
    assert found.rerun_end["failure"]["kind"] == "execute"
    same = {
        "failure": {"kind": "max_iterations", "message": "…"},
        "options": RecordedOptions(max_iterations=2),
    }
    again = await compared(scripted, FIRST, asks("read", page=2), says("never"), **same)
    assert (again.path, again.rerun_end and again.rerun_end["failure"]["kind"]) == (
        "same",
        "max_iterations",
    )


async def test_steering_comes_when_it_came(scripted: Scripted) -> None:
    model = scripted([FIRST, says("What?"), asks("read", page=2), says("done")])
    known = recording(model, [FIRST, says("What?"), asks(call("read", "c", page=2)), says("done")])
    known.steering = {1: ["first"], 3: ["go on", "please"]}
    assert (await rerun(known)).path == "same"
    said = [
        [each.text for each in request.messages if each.role == "user"]
        for request in model.requests
    ]
    assert said[0] == ["What is it?", "first"]
    assert said[2:] == [["What is it?", "first", "go on", "please"]] * 2


async def test_another_agent(scripted: Scripted) -> None:
    """Its instructions are new; a message that needs an input which is not recorded stays as it
    was.
    """
    model = scripted(RECORDED)
    known = recording(model)
    prompt = "system:\nBe brief.\nuser:\nSo: {{question}}"
    inputs = [{"name": "question", "kind": "string", "required": True}]
    changed = scripted_agent(model, ["search", "read", "more"], instructions=prompt, inputs=inputs)
    found = await rerun(known, agent=changed)
    assert found.path == "same"
    assert found.notes == [
        "the messages of the file's prompt, except its instructions: they need the input question"
    ]
    await rerun(known, agent=changed, inputs={"question": "why?"})
    seeds = [[message.text for message in model.requests[n].messages[:2]] for n in (0, 3)]
    assert seeds == [["Be brief.", "What is it?"], ["Be brief.", "So: why?"]]
    assert len(model.requests[0].body["tools"]) == 3


def test_calls_that_ask_for_the_same() -> None:
    def key(arguments: str) -> tuple[str, str]:
        return call_key(ToolCall(id="", name="f", arguments=arguments))

    assert key('{"a": 1, "b": [2.0, {"c": null}]}') == key('{"b":[2,{"c":null}],"a":1}')
    assert key("") == key("{}") == key('{"a": null}')
    assert key('{"a": "1"}') != key('{"a": 1}')
    assert key("{nonsense") == key(" {nonsense ")
