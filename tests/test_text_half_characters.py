"""Half of a surrogate pair: joined with its other half, or replaced, and never the end of a run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from perdure.errors import ExecuteError
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.messages import Message
from perdure.providers import close_clients, format_tool_messages, process_response
from perdure.testing import ScriptedModel, asks, call, says
from perdure.text import bounded_text, valid_json, valid_text
from perdure.tools import tool

from .support.agents import scripted_agent
from .support.recorded_server import Recorded, RecordedServer, recorded_server
from .support.stage import Stage
from .support.waiting import wait_for
from .support.wild_provider import APIS, answer, asking, events, stream

HIGH, LOW, GONE = "\ud83d", "\ude00", "\ufffd"


@pytest.fixture
async def wild() -> AsyncIterator[RecordedServer]:
    async with recorded_server() as server:
        yield server
        await close_clients()


@pytest.mark.parametrize("api", APIS)
async def test_an_emoji_cut_in_mid_stream_costs_one_call(
    stage: Stage, wild: RecordedServer, api: str
) -> None:
    pieces = ["so ", HIGH, f"{LOW} and {HIGH}", LOW, "", f" {LOW}{HIGH}"]
    wild.answers(stream(events(api, pieces, thinking=["I ", HIGH, LOW]), piece=7))
    async with stage.worker():
        run = await stage.start(asking(wild, api), stream=True)
        seen = [event async for event in run.stream() if event.type in ("token", "thinking")]
        result = await run.result()
    assert result.output == f"so 😀 and 😀 {GONE}{GONE}"
    assert len(wild.received) == 1
    assert all(event.data == valid_json(event.data) for event in seen)


@pytest.mark.parametrize("api", APIS)
async def test_half_a_character_in_a_whole_answer(
    stage: Stage, wild: RecordedServer, api: str
) -> None:
    body = json.dumps(answer(api, f"a {HIGH}{LOW} b {HIGH} c {LOW}")).encode()
    wild.answers(Recorded(body.replace(b"c ", b"c \xed\xa0\xbd")))
    async with stage.worker():
        run = await stage.start(asking(wild, api), raw=True)
        result = await run.result()
    assert result.messages[-1].text == f"a 😀 b {GONE} c 😀"
    assert len(wild.received) == 1


def asked(arguments: list[str]) -> list[dict[str, Any]]:
    """A stream that asks for `look`, whose arguments come in these pieces, after a refusal to
    think.
    """
    opened = {"index": 0, "id": f"c{HIGH}", "function": {"name": "look", "arguments": ""}}
    pieces = [opened, *({"index": 0, "function": {"arguments": piece}} for piece in arguments)]
    deltas = [{"choices": [{"delta": {"tool_calls": [piece]}}]} for piece in pieces]
    return [*deltas, {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}]


async def test_arguments_cut_in_mid_character(stage: Stage, wild: RecordedServer) -> None:
    given: list[str] = []

    @tool
    def look(text: str) -> str:
        given.append(text)
        return "seen"

    escaped = ['{"text": "\\ud8', '3d\\ude00"}']
    cut = ['{"text": "' + HIGH, LOW + HIGH + '"}']
    wild.answers(stream(asked(escaped)), stream(asked(cut)), stream(events("chat", ["done"])))
    async with stage.worker([look]):
        result = await (await stage.start(asking(wild, tools=["look"]), stream=True)).result()
    assert given == ["😀", f"😀{GONE}"]
    assert result.output == "done"
    assert len(wild.received) == 3


async def test_a_refusal_and_an_error(stage: Stage, wild: RecordedServer) -> None:
    wild.answers(
        stream(
            [{"choices": [{"delta": {"refusal": piece}}]} for piece in (f"no{HIGH}", f"{LOW}{LOW}")]
        ),
        Recorded.of_json(
            {"error": {"message": f"no {HIGH}", "code": HIGH}, "request_id": HIGH}, status=400
        ),
    )
    async with stage.worker():
        for text in (f"Model refused: no😀{GONE}", f"no {GONE}"):
            run = await stage.start(asking(wild), stream=True)
            with pytest.raises(ExecuteError) as caught:
                await run.result()
            assert text in str(caught.value)


async def test_structured_answers_and_original_content(stage: Stage, wild: RecordedServer) -> None:
    blocks = [
        {"type": "thinking", "thinking": HIGH, "signature": f"s{LOW}"},
        {"type": "text", "text": '{"a": "\\ud83d"}'},
    ]
    wild.answers(
        Recorded.of_json({"id": HIGH, "content": blocks, "stop_reason": HIGH, "model": LOW})
    )
    async with stage.worker():
        agent = asking(wild, "anthropic", outputs=[{"name": "a", "kind": "string"}])
        result = await (await stage.start(agent)).result()
    assert result.output == {"a": GONE}
    assert result.messages[-1].metadata["provider_content"]["content"][0]["thinking"] == GONE


async def test_what_callers_and_guardrails_say(stage: Stage) -> None:
    seen: list[Any] = []

    def echo(text: str = "") -> str:
        seen.append(text)
        return "ok"

    guardrails = Guardrails(
        output=lambda message: GuardrailResult(allowed=True, rewrite=f"{message.text} {HIGH}"),
        tool=lambda name, arguments: GuardrailResult(
            allowed=True, rewrite={"text": arguments["text"] + LOW}
        ),
    )
    declared = {
        "name": "echo",
        "kind": "function",
        "parameters": [{"name": "text", "kind": "string"}],
    }
    with ScriptedModel([asks(call("echo", text="a")), says("done")]) as model:
        async with stage.worker({"echo": echo}, guardrails={"all": guardrails}):
            agent = scripted_agent(model, [declared])
            messages: list[Any] = [{"role": "user", "content": f"Hi {HIGH}{LOW} {LOW}"}]
            run = await stage.start(agent, messages, guardrails="all")
            await run.steer(f"and {HIGH}")
            result = await run.result()
    assert seen == [f"a{GONE}"]
    assert result.output == f"done {GONE}"
    texts = [message.text for message in result.messages]
    assert f"Hi 😀 {GONE}" in texts
    assert f"and {GONE}" in texts


async def test_edited_arguments(stage: Stage) -> None:
    seen: list[str] = []

    @tool(needs_approval=True)
    def look(text: str) -> str:
        seen.append(text)
        return "ok"

    with ScriptedModel([asks(call("look", text="a")), says("done")]) as model:
        async with stage.worker([look]):
            run = await stage.start(scripted_agent(model, ["look"]))

            async def waits() -> bool:
                return bool((await run.status()).pending_approvals)

            await wait_for(waits)
            await run.approve("call_look", arguments={"text": f"b{HIGH}{LOW}{HIGH}"})
            assert (await run.result()).output == "done"
    assert seen == [f"b😀{GONE}"]


def test_pure_functions() -> None:
    agent = scripted_agent_of("chat")
    response = answer("chat", f"a{HIGH}{LOW}{LOW}")
    assert process_response(agent, response) == f"a😀{GONE}"
    assert format_tool_messages(agent, response, [], [])[0].text == f"a😀{GONE}"


def scripted_agent_of(api: str) -> Any:
    return asking(RecordedServer(), api)


def test_valid_and_bounded() -> None:
    assert valid_text(f"{LOW}{HIGH}x{HIGH}{LOW}") == f"{GONE}{GONE}x😀"
    assert valid_json({f"k{LOW}": [HIGH, 1, None, (LOW,)]}) == {f"k{GONE}": [GONE, 1, None, [GONE]]}
    assert bounded_text("é" * 10, 20) == "é" * 10
    long = bounded_text(f"head {'😀' * 5000}")
    assert len(long.encode()) <= 8192
    assert long.startswith("head ")
    assert long.endswith("[… cut: 20,005 bytes]")
    assert Message.user(valid_text(HIGH)).text == GONE
