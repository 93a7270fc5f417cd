"""Whatever user code lets escape, and whatever it returns, becomes one result of one execution."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from perdure.guardrails import GuardrailResult, Guardrails
from perdure.json_types import JsonObject
from perdure.messages import AudioPart, FilePart, ImagePart, Message, TextPart, ToolResult
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage

LONG = [Message.user("x" * 400) for _ in range(8)]


class Odd(BaseException):
    """Neither an Exception nor one of Python's own."""


async def cancels_itself() -> str:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return "never"


async def cancels_itself_and_returns() -> str:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return "kept"


def raises(error: BaseException) -> Callable[[], Any]:
    async def escape() -> str:
        raise error

    return escape


async def ends_its_loop() -> str:
    asyncio.get_running_loop().stop()
    asyncio.get_running_loop().call_soon(raise_exit)
    await asyncio.sleep(0.05)
    return "goes on"


def raise_exit() -> None:
    raise SystemExit(3)


WAYS: dict[str, tuple[Callable[[], Any], str]] = {
    "odd": (raises(Odd("strange")), "Odd: strange"),
    "interrupt": (raises(KeyboardInterrupt()), "KeyboardInterrupt"),
    "exit": (raises(SystemExit(3)), "SystemExit: 3"),
    "generator": (raises(GeneratorExit()), "GeneratorExit"),
    "cancelled": (raises(asyncio.CancelledError()), "CancelledError"),
    "cancels": (cancels_itself, "CancelledError"),
}


@pytest.mark.parametrize("own_loop", [True, False])
async def test_what_escapes_an_async_tool_is_its_result(
    stage: Stage, scripted: Scripted, own_loop: bool
) -> None:
    calls: Counter[str] = Counter()

    def counted(name: str, way: Callable[[], Any]) -> Callable[..., Any]:
        async def run(text: str = "") -> Any:
            calls[name] += 1
            return await way()

        return run

    ways = {name: way for name, (way, _) in WAYS.items()} | {
        "kept": cancels_itself_and_returns,
        "fine": say_fine,
    }
    if own_loop:
        ways["loop"] = ends_its_loop
    tools = {name: counted(name, way) for name, way in ways.items()}
    model = scripted([asks(*(call(name) for name in tools)), says("done")])
    async with stage.worker(tools, **({"tool_loop": None} if own_loop else {})):
        run = await stage.start(scripted_agent(model, list(tools)), parallel_tool_calls=True)
        messages = (await run.result()).messages
    assert calls == dict.fromkeys(tools, 1)
    texts = dict(zip(tools, [message.text for message in messages[3:-1]], strict=True))
    assert texts.pop("kept") == "kept"
    assert texts.pop("fine") == "fine"
    assert texts.pop("loop", "goes on") == "goes on"
    for name, text in texts.items():
        assert text.startswith(f"Error: Tool '{name}' failed: ")
        assert text.endswith(WAYS[name][1])


async def say_fine() -> str:
    return "fine"


async def test_what_escapes_an_async_guardrail_or_compactor_counts_once(
    stage: Stage, scripted: Scripted
) -> None:
    calls: Counter[str] = Counter()

    async def judge(name: str, arguments: JsonObject) -> GuardrailResult:
        calls["judge"] += 1
        return await WAYS["odd"][0]()  # type: ignore[no-any-return]

    async def compact(messages: list[Message]) -> str:
        calls["compact"] += 1
        return await WAYS["odd"][0]()  # type: ignore[no-any-return]

    model = scripted([asks(call("fine")), says("done")])
    hooks = {"guardrails": {"odd": Guardrails(tool=judge)}, "compactors": {"odd": compact}}

    async def fine(text: str = "") -> str:
        return "fine"

    async with stage.worker({"fine": fine}, tool_loop=None, **hooks):
        run = await stage.start(
            scripted_agent(model, ["fine"]),
            LONG,
            guardrails="odd",
            compactor="odd",
            context_budget=3000,
        )
        messages = (await run.result()).messages
    assert calls["judge"] == 1
    assert calls["compact"]  # It is asked again; then the built-in summary takes its place.
    text = next(message.text for message in messages if message.role == "tool")
    assert text.startswith("Tool denied by guardrail: the tool guardrail failed: RuntimeError: ")


BIG = b64encode(Random(1).randbytes(3_000_000)).decode()  # which compression can't make small
HALF = "image/\ud800"


def broken() -> ToolResult:
    result = ToolResult.of_text("fine")
    result.status = "unheard of"  # type: ignore[assignment]
    return result


RESULTS: dict[str, Callable[[], Any]] = {
    "mediaType": lambda: ImagePart(source="aGk=", mediaType=BIG),
    "detail": lambda: [ImagePart(source="aGk=", detail=BIG)],
    "half": lambda: AudioPart(source="aGk=", mediaType=HALF),
    "half_source": lambda: FilePart(source="\ud800"),
    "unknown_field": lambda: TextPart.model_validate({"value": "fine", "later": {"deep": [BIG]}}),
    "no_string": lambda: TextPart.model_construct(value=object()),
    "status": broken,
}


async def test_a_result_that_cannot_be_recorded_is_an_error_of_one_execution(
    stage: Stage, scripted: Scripted
) -> None:
    calls: Counter[str] = Counter()

    def counted(name: str, make: Callable[[], Any]) -> Callable[..., Any]:
        def run(text: str = "") -> Any:
            calls[name] += 1
            return make()

        return run

    tools = {name: counted(name, make) for name, make in RESULTS.items()}
    model = scripted([asks(*(call(name) for name in tools)), says("done")])
    async with stage.worker(tools):
        run = await stage.start(scripted_agent(model, list(tools)), parallel_tool_calls=True)
        messages = (await run.result()).messages
    assert calls == dict.fromkeys(tools, 1)
    for name, message in zip(tools, messages[3:-1], strict=True):
        assert message.text.startswith(f"Error: Tool '{name}' failed: "), name
        assert len(message.text) < 1000
    assert "the image part has 4,000,0" in messages[3].text


async def test_no_number_of_parts_is_too_large(stage: Stage, scripted: Scripted) -> None:
    calls: Counter[str] = Counter()

    def many(text: str = "") -> list[TextPart]:
        calls["many"] += 1
        return [TextPart(value="")] * 500_000

    def labelled(text: str = "") -> ToolResult:
        calls["labelled"] += 1
        return ToolResult.failure("no", kind=BIG)

    tools = {"many": many, "labelled": labelled}
    model = scripted([asks(call("many"), call("labelled")), says("done")])
    async with stage.worker(tools):
        messages = (await (await stage.start(scripted_agent(model, list(tools)))).result()).messages
    assert calls == {"many": 1, "labelled": 1}
    assert (
        messages[3].text
        == "[… 499000 more parts of 0 bytes left out: over the limit for a tool result …]"
    )
    assert messages[4].text == "no"
