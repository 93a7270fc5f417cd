"""§13.6, §9.8, §9.9: one round of tool calls, and everything that models and tools do wrong in
it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from perdure.agents import Agent
from perdure.errors import ToolNotRegisteredError
from perdure.messages import ImagePart, Message, ModelReply, ToolCall
from perdure.testing import asks, call, says
from perdure.tools import tool
from perdure.tools.context import ToolContext

from ..support.loop_stage import Stage, written
from ..support.unknown_outcomes import FIND_OUT

LOOK = Agent.model_validate(
    {
        "name": "looker",
        "inputs": [{"name": "eye"}],
        "tools": [
            {
                "kind": "function",
                "name": "look",
                "parameters": [
                    {"name": "at", "kind": "string", "required": True},
                    {"name": "times", "kind": "integer"},
                    {"name": "how", "kind": "string", "enumValues": ["closely", "briefly"]},
                    {"name": "eye", "kind": "string"},
                ],
                "bindings": {"eye": {"input": "eye"}},
            }
        ],
    }
)


def look(at: str, times: int = 1, how: str = "briefly", eye: str = "left") -> str:
    return f"{at} {times} {how} {eye}"


async def answer(*calls: ToolCall, **named: Any) -> Stage:
    stage = Stage(asks(*calls), says("Done"), **named)
    await stage.play()
    return stage


WRONG = "Error: Invalid arguments for tool 'look': "


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        ('{"at": "sky", "times": 2}', "sky 2 briefly right"),
        ('```json\n{"at": "sky"}\n```', "sky 1 briefly right"),
        ('{"at": "sky",}', "sky 1 briefly right"),
        ('{"at": "sky", "times": null}', "sky 1 briefly right"),
        ('{"at": "sky", "eye": "third"}', "sky 1 briefly right"),
        ("", WRONG + "'at' is required (string)"),
        ("{}", WRONG + "'at' is required (string)"),
        ('{"at": 7}', WRONG + "'at' must be string, got 7"),
        ('{"at": "sky", "times": "2"}', WRONG + "'times' must be integer, got \"2\""),
        ('{"at": "sky", "times": true}', WRONG + "'times' must be integer, got true"),
        (
            '{"at": "sky", "how": "never"}',
            WRONG + '\'how\' must be one of "closely", "briefly", got "never"',
        ),
        ('{"at": "sky", "with": 1}', WRONG + "unknown argument 'with': expected at, times, how"),
        ("[1]", "Error: Invalid JSON in tool arguments: expected a JSON object, got '[1]'"),
        ('{"at": NaN}', "Error: Invalid JSON in tool arguments: NaN is not a JSON value"),
    ],
)
async def test_arguments(arguments: str, result: str) -> None:
    stage = await answer(
        written("look", arguments), agent=LOOK, tools={"look": look}, inputs={"eye": "right"}
    )
    assert stage.results() == [result]
    failed = [{"message": result}] if result.startswith("Error") else []
    assert stage.data("error") == failed
    assert stage.messages[3].metadata.get("status") == ("error" if failed else None)


async def test_text_that_is_no_json_never_becomes_empty_arguments() -> None:
    ran: list[str] = []
    stage = await answer(written("wipe", "everything!"), tools={"wipe": lambda: ran.append("wipe")})
    assert stage.results()[0].startswith("Error: Invalid JSON in tool arguments: ")
    assert ran == []


async def test_the_repair_that_helped_is_a_status() -> None:
    stage = await answer(
        written("look", '```json\n{"at": "sky"}\n```'), agent=LOOK, tools={"look": look}
    )
    assert stage.said() == ["Parsed tool arguments after stripping markdown fences"]


@pytest.mark.parametrize("parallel", [False, True])
async def test_a_tool_that_raises_is_a_result_and_its_siblings_survive(parallel: bool) -> None:
    async def leak() -> None:
        raise asyncio.CancelledError

    def broken() -> None:
        raise LookupError("no such page")

    def leave() -> None:
        raise SystemExit(3)

    tools = {"broken": broken, "leak": leak, "leave": leave, "fine": lambda: "fine"}
    stage = await answer(*[call(name) for name in tools], tools=tools, parallel_tool_calls=parallel)
    assert stage.results() == [
        "Error: Tool 'broken' failed: LookupError: no such page",
        "Error: Tool 'leak' failed: CancelledError",
        "Error: Tool 'leave' failed: SystemExit: 3",
        "fine",
    ]
    assert {data["message"] for data in stage.data("error")} == set(stage.results()[:3])


async def test_a_tool_that_takes_too_long_is_a_result() -> None:
    async def hang() -> None:
        await asyncio.sleep(60)

    def hang_plainly() -> None:
        time.sleep(0.2)

    @tool(timeout=0.01)
    def hang_by_itself() -> None:
        time.sleep(0.2)

    tools = {"hang": hang, "hang_plainly": hang_plainly}
    stage = await answer(*[call(name) for name in tools], tools=tools, tool_timeout=0.02)
    told = [
        f"Error: Tool '{name}' failed: timed out after 0.02 seconds{FIND_OUT}" for name in tools
    ]
    assert stage.results() == told
    assert [message.metadata.get("status") for message in stage.messages[3:5]] == ["timeout"] * 2
    stage = await answer(call("hang_by_itself"), tools={"hang_by_itself": hang_by_itself})
    assert stage.results() == [
        f"Error: Tool 'hang_by_itself' failed: timed out after 0.01 seconds{FIND_OUT}"
    ]


async def test_an_unknown_tool_is_a_result_that_lists_what_exists() -> None:
    stage = await answer(
        call("lok"), call("see"), tools={"see": lambda: "seen", "hear": lambda: "heard"}
    )
    assert stage.results() == [
        "Error: Tool not registered: lok. Available tools: hear, see",
        "seen",
    ]
    assert stage.types("tool_call_start", "tool_result").count("tool_result") == 2
    stage = await answer(call("lok"))
    assert stage.results() == ["Error: Tool not registered: lok. There are no tools."]


async def test_an_unknown_tool_fails_the_run_when_the_caller_wants_that() -> None:
    ran: list[str] = []
    stage = Stage(
        asks(call("see"), call("lok")),
        tools={"see": lambda: ran.append("see")},
        unknown_tools="raise",
    )
    with pytest.raises(ToolNotRegisteredError, match="^Tool not registered: lok$") as failure:
        await stage.play()
    assert isinstance(failure.value, ValueError)
    assert (ran, stage.types()[-1]) == ([], "failed")


async def test_parallel_calls_run_at_once_and_results_keep_the_order_of_the_request() -> None:
    running = 0
    turns = [asyncio.Event() for _ in range(4)]

    async def work(turn: int) -> str:
        nonlocal running
        running += 1
        if running == 3:
            turns[1].set()
        await asyncio.wait_for(turns[turn].wait(), 20)
        # The next one ends when this one has.
        asyncio.get_running_loop().call_later(0.02, turns[min(turn + 1, 3)].set)
        return f"was number {turn}"

    calls = [call("work", f"call_{turn}", turn=turn) for turn in (3, 1, 2)]
    stage = await answer(*calls, tools={"work": work}, parallel_tool_calls=True)
    assert stage.results() == ["was number 3", "was number 1", "was number 2"]
    assert (
        stage.types("tool_call_start", "tool_result")
        == ["tool_call_start"] * 3 + ["tool_result"] * 3
    )
    ended = [
        event.call_id for event in stage.effects.log.page(0).events if event.type == "tool_result"
    ]
    assert ended == ["call_1", "call_2", "call_3"]


async def test_calls_run_one_after_the_other_by_default_or_when_a_tool_wants_it() -> None:
    order: list[str] = []

    async def work(name: str) -> None:
        order.append(f"{name} begins")
        await asyncio.sleep(0)
        order.append(f"{name} ends")

    alone = tool(name="alone", parallel_safe=False)(work)
    calls = [call("work", "1", name="a"), call("alone", "2", name="b")]
    for options in ({}, {"parallel_tool_calls": True}):
        order.clear()
        await answer(*calls, tools={"work": work, "alone": alone}, **options)
        assert order == ["a begins", "a ends", "b begins", "b ends"]


async def test_what_a_tool_may_know() -> None:
    def who(context: ToolContext) -> str:
        return f"{context.iteration} {context.call_id}"

    stage = Stage(asks("who", "a"), asks("who", "b"), says("Done"), tools={"who": who})
    await stage.play()
    assert stage.results() == ["1 a", "2 b"]


async def test_a_result_that_is_an_image() -> None:
    image = ImagePart(source="https://example.org/sky.png")
    stage = await answer(call("look"), tools={"look": lambda: image})
    assert stage.messages[3].parts == [image]
    assert stage.data("tool_result") == [{"name": "look", "result": ""}]


async def test_text_beside_calls_is_kept_and_a_provider_s_content_too() -> None:
    asked = Message.assistant("Let me see", [call("look")])
    asked.metadata["provider_content"] = {"api": "anthropic", "content": [{"type": "thinking"}]}
    stage = Stage(ModelReply(message=asked), says("Done"), tools={"look": lambda: "seen"})
    await stage.play()
    assert stage.messages[2] == asked
