"""Executing tools: dispatch, arguments, failures, time limits (§9.6, §9.9, §11)."""

from __future__ import annotations

import asyncio
import contextvars
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

from perdure.agents import Agent
from perdure.errors import ConfigurationError, ToolNotRegisteredError
from perdure.json_types import JsonObject
from perdure.messages import ToolResult
from perdure.providers.base import offered_functions
from perdure.tool_calls import CHECK_FAILED
from perdure.tools import (
    ToolContext,
    clear_tool_handlers,
    clear_tools,
    register_tool,
    register_tool_handler,
    tool,
)
from perdure.tools.dispatch import ToolBox
from perdure.tools.inventory import ToolInventory
from perdure.tools.kind import Asking


@pytest.fixture(autouse=True)
def _forget_tools() -> Iterator[None]:
    yield
    clear_tools()
    clear_tool_handlers()


def agent_with(*tools: JsonObject) -> Agent:
    return Agent.model_validate({"tools": [{"kind": "function"} | each for each in tools]})


AGENT = agent_with({"name": "t"})


async def run(
    function: Callable[..., Any], arguments: JsonObject | None = None, **more: Any
) -> ToolResult:
    return await ToolBox({"t": function}).execute(AGENT, "t", arguments or {}, {}, **more)


async def test_plain_functions_run_in_a_thread_that_sees_context_variables() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    variable.set("set")
    result = await run(
        lambda: f"{variable.get()} {threading.current_thread() is threading.main_thread()}"
    )
    assert result.text == "set False"
    assert result.status == "success"
    assert result.duration_ms is not None


async def test_async_functions_run_in_the_loop() -> None:
    async def here() -> str:
        await asyncio.sleep(0)
        return str(threading.current_thread() is threading.main_thread())

    class Callable_:
        async def __call__(self, n: int) -> str:
            return f"called {n}"

    async def add(a: int, b: int) -> int:
        return a + b

    assert (await run(here)).text == "True"
    assert (await run(Callable_(), {"n": 1})).text == "called 1"
    assert (await run(partial(add, 1), {"b": 2})).text == "3"
    assert (await run(lambda: here())).text == "True"


def by_place(a: int, b: str = "b", c: str = "c", /, d: str = "d", *, context: ToolContext) -> str:
    return f"{a}{b}{c}{d}{context.tool}"


async def context_by_place(
    a: int, context: ToolContext, b: str = "b", /, *rest: str, **more: str
) -> str:
    return f"{a}{context.tool}{b}{more}"


@pytest.mark.parametrize(
    ("function", "arguments", "text"),
    [
        (by_place, {"a": 1}, "1bcdt"),
        (by_place, {"c": "C", "a": 1}, "1bCdt"),
        (by_place, {"d": "D", "b": "B", "a": 1}, "1BcDt"),
        (partial(by_place, 0), {"c": "C"}, "0bCdt"),
        (context_by_place, {"a": 2}, "2tb{}"),
        (context_by_place, {"e": "E", "b": "B", "a": 2}, "2tB{'e': 'E'}"),
        (math.hypot, {}, "0.0"),
        (math.sqrt, {"x": 9}, "3.0"),
        (by_place, {"b": "B"}, "Error: Invalid arguments for tool 't': 'a' is required"),
    ],
)
async def test_positional_only_parameters_get_their_arguments_by_place(
    function: Callable[..., Any], arguments: JsonObject, text: str
) -> None:
    assert (await run(function, arguments)).text == text


async def test_an_object_without_a_text_is_no_result() -> None:
    result = await run(object)
    assert result.status == "error"
    assert (
        "it was executed, and returned an object of the class object, which has no JSON form"
        in result.text
    )


class Session:
    """What has no JSON form."""


def of_a_class(n: int, session: Session) -> int:
    return n


def of_nothing(n: int, typo: Sesion) -> int:  # type: ignore[name-defined]  # noqa: F821
    return n


def of_either(n: int, session: Session | None = None, typo: Sesion = 1) -> int:  # type: ignore[name-defined]  # noqa: F821
    return n


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (
            of_a_class,
            "'session' is a Session, which has no JSON form that a model could write: give the "
            "worker",
        ),
        (
            of_nothing,
            "the annotation 'Sesion' of 'typo' names nothing in tests.tools.test_dispatch",
        ),
        (of_either, ""),
    ],
)
async def test_what_no_model_can_write_is_said_before_the_first_call(
    function: Callable[..., Any], problem: str
) -> None:
    inventory = await ToolBox({"t": function}).inventory(Asking(AGENT, {}))
    assert [each for each in inventory.problems if problem in each] == inventory.problems
    assert bool(inventory.problems) == bool(problem)
    assert [prop.name for prop in getattr(inventory.offered[0], "parameters", [])] == ["n"]
    shared = ToolBox({"t": of_a_class}, resources={Session: Session})
    assert not (await shared.inventory(Asking(AGENT, {}))).problems


async def test_what_a_tool_raises_is_told_to_the_model() -> None:
    def broken() -> None:
        raise FileNotFoundError("no such city: Atlantis")

    async def broken_async() -> None:
        raise KeyError

    failed = await run(broken)
    assert (
        failed.text
        == failed.error_message
        == "Error: Tool 't' failed: FileNotFoundError: no such city: Atlantis"
    )
    assert (failed.status, failed.error_kind) == ("error", "FileNotFoundError")
    assert (await run(broken_async)).text == "Error: Tool 't' failed: KeyError"
    assert (await run(sys.exit, {})).error_kind == "SystemExit"


@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt("stop"), GeneratorExit(), StopIteration(1), asyncio.CancelledError()],
)
async def test_nothing_raised_in_a_thread_ends_the_worker(error: BaseException) -> None:
    def broken() -> None:
        raise error

    result = await run(broken)
    assert result.status == "error"
    assert type(error).__name__ in result.text


async def test_a_result_that_json_cannot_hold_is_an_error() -> None:
    def recursive() -> Any:
        loop: list[Any] = []
        loop.append(loop)
        return loop

    result = await run(recursive)
    assert result.status == "error"
    assert result.text.startswith("Error: Tool 't' failed: ")


async def test_a_time_limit_ends_plain_and_async_tools() -> None:
    ended = asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()

    for function in (slow, partial(time.sleep, 0.5)):
        result = await run(function, timeout=0.05)
        assert result.text == "Error: Tool 't' failed: timed out after 0.05 seconds"
        assert (result.status, result.error_kind) == ("timeout", "timeout")
        assert result.duration_ms is not None
        assert result.duration_ms < 400
    assert ended.is_set()


async def test_a_timeout_error_of_the_tool_itself_is_a_failure() -> None:
    def broken() -> None:
        raise TimeoutError("the weather service did not answer")

    result = await run(broken, timeout=5)
    assert (result.status, result.error_kind) == ("error", "TimeoutError")
    assert result.text == "Error: Tool 't' failed: TimeoutError: the weather service did not answer"


async def test_cancellation_of_the_caller_is_never_converted() -> None:
    async def slow() -> None:
        await asyncio.sleep(30)

    for function in (slow, partial(time.sleep, 0.3)):
        task = asyncio.create_task(run(function, timeout=10))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def get_weather(city: str, days: int = 1, unit: str = "celsius") -> str:
    return f"{city} {days} {unit}"


class Place(BaseModel):
    city: str
    zip: int


async def test_arguments_arrive_as_the_annotated_types() -> None:
    def describe(place: Place, ratio: float, note=None) -> str:  # type: ignore[no-untyped-def]
        return f"{place!r} {ratio!r} {note!r}"

    given = {"place": {"city": "Oslo", "zip": 150}, "ratio": 2, "note": {"a": 1}}
    assert (await run(describe, given)).text == "Place(city='Oslo', zip=150) 2.0 {'a': 1}"
    wrong = await run(describe, {"place": {"city": "Oslo", "zip": "x"}, "ratio": 1})
    assert wrong.text.startswith(
        "Error: Invalid arguments for tool 't': 'place.zip': input should be a valid integer"
    )


async def test_annotations_out_of_reach_do_no_harm() -> None:
    class Local(BaseModel):
        a: int

    def describe(local: Local, ctx: ToolContext) -> str:
        return f"{local} {ctx.call_id}"

    box = ToolBox({"t": partial(describe)})
    result = await box.execute(AGENT, "t", {"local": {"a": 1}}, {}, ToolContext(call_id="c"))
    assert result.text == "{'a': 1} c"


async def test_a_context_parameter_is_filled_in() -> None:
    beats: list[object] = []
    context = ToolContext(run_id="r", call_id="c", idempotency_key="r/1/c", heartbeat=beats.append)

    def plain(city: str, ctx: ToolContext) -> str:
        ctx.heartbeat(city)
        return f"{city} {ctx.idempotency_key}"

    async def here(ctx: ToolContext) -> str:
        ctx.heartbeat("here")
        return ctx.run_id

    box = ToolBox({"t": plain})
    assert (await box.execute(AGENT, "t", {"city": "Oslo"}, {}, context)).text == "Oslo r/1/c"
    assert (await run(here, context=context)).text == "r"
    await asyncio.sleep(0)
    assert beats == ["Oslo", "here"]
    assert (await run(here)).text == ""


def test_a_tool_is_found_by_name_then_by_kind() -> None:
    agent = agent_with({"name": "a"}, {"name": "b", "kind": "mcp"}, {"name": "c"})
    register_tool("a", max)
    register_tool("c", max)
    register_tool_handler("mcp", max)
    box = ToolBox({"c": min})
    assert box.resolve("a", agent).function is max
    assert box.resolve("b", agent).function is max
    assert box.resolve("c", agent).function is min
    assert ToolBox(kinds={"mcp": min}).resolve("b", agent).function is min
    assert ToolBox({"b": min}, kinds={"mcp": max}).resolve("b", agent).function is min


async def test_a_kind_handler_gets_the_declaration_the_arguments_the_agent_and_the_inputs() -> None:
    agent = agent_with(
        {"name": "b", "kind": "database", "bindings": {"who": "user"}}
        | {"bindings": {"who": {"input": "user"}}}
    )

    async def handler(
        tool: Any, arguments: Any, agent: Agent, inputs: Any, context: ToolContext
    ) -> Any:
        return [tool.name, tool.kind, arguments, len(agent.tools or []), inputs, context.call_id]

    box = ToolBox(kinds={"database": handler})
    result = await box.execute(agent, "b", {"q": 1}, {"user": "u"}, ToolContext(call_id="c"))
    assert result.text == '["b","database",{"q":1,"who":"u"},1,{"user":"u"},"c"]'


async def test_a_tool_without_handler_raises() -> None:
    with pytest.raises(ToolNotRegisteredError, match="^Tool not registered: other$"):
        await ToolBox({"other": max}).execute(AGENT, "other", {}, {})
    with pytest.raises(ValueError, match=r"^No handler registered for tool: b \(kind: soap\)$"):
        await ToolBox().execute(agent_with({"name": "b", "kind": "soap"}), "b", {}, {})


async def test_the_inventory_says_how_tools_run_and_what_is_missing() -> None:
    @tool(name="pay", timeout=5, idempotent=False)
    def pay_up() -> None: ...

    agent = agent_with(
        {"name": "pay"}, {"name": "plain"}, {"name": "hub", "kind": "mcp"}, {"name": "gone"}
    )
    box = ToolBox({"pay": pay_up, "plain": max}, kinds={"mcp": max})
    inventory = await box.inventory(Asking(agent, {}))
    assert [(spec.name, spec.timeout, spec.idempotent) for spec in inventory.tools] == [
        ("pay", 5, False),
        ("plain", None, True),
        ("hub", None, True),
    ]
    assert inventory.missing == {"gone": "function"}
    assert await ToolBox().inventory(Asking(Agent(), {})) == ToolInventory()


@pytest.mark.parametrize(
    "declared",
    [
        {"kind": "mcp", "serverName": "books"},
        {"kind": "openapi", "specification": "books.yaml"},
        {"kind": "database"},
        {"kind": "builtin"},
    ],
    ids=lambda declared: declared["kind"],
)
async def test_a_function_overrides_a_tool_of_its_name_and_is_offered(
    declared: JsonObject,
) -> None:
    """§9.2, layer 1."""

    def look_up(word: str, user: str = "") -> str:
        """Looks a word up."""
        return f"{word} for {user}"

    agent = agent_with({"name": "look_up", "bindings": {"user": {"input": "user"}}, **declared})
    box = ToolBox({"look_up": look_up})
    inventory = await box.inventory(Asking(agent, {}))
    offered = agent.with_declarations(inventory.offered)
    (seen,) = offered_functions(offered)
    assert (seen.name, seen.description, list(seen.parameters["properties"])) == (
        "look_up",
        "Looks a word up.",
        ["word"],
    )
    assert (
        await box.execute(offered, "look_up", {"word": "x"}, {"user": "Ann"})
    ).text == "x for Ann"
    (note,) = inventory.notes
    assert f"is called in place of the tool 'look_up' (kind: {declared['kind']})" in note


async def test_a_tool_that_its_handler_keeps_from_being_offered_is_told_of() -> None:
    parameters = [{"name": "q", "kind": "string"}]
    agent = agent_with(
        {"name": "a", "kind": "soap"}, {"name": "b", "kind": "soap", "parameters": parameters}
    )
    inventory = await ToolBox(kinds={"soap": max}).inventory(Asking(agent, {}))
    assert [
        function.name for function in offered_functions(agent.with_declarations(inventory.offered))
    ] == ["b"]
    assert [note.split(":")[0] for note in inventory.notes] == [
        "The model is not offered the tool 'a' (kind"
    ]


def test_a_box_holds_functions_and_modules() -> None:
    module = ModuleType("weather_tools")
    vars(module).update(get_weather=tool(get_weather), alias=get_weather, helper=max)
    assert ToolBox([module, max]).names == ["get_weather", "max"]
    with pytest.raises(
        ConfigurationError, match="^Duplicate tool handler: max .*: rename one, or give it a prefix"
    ):
        ToolBox([max, tool(name="max")(lambda: None)])
    with pytest.raises(ConfigurationError, match="has no name"):
        ToolBox([lambda: None])


async def test_a_person_is_asked_where_the_check_of_a_tool_fails() -> None:
    def broken(arguments: JsonObject) -> bool:
        raise KeyError(arguments["order"])

    def pay(order: str) -> str:
        return order

    box = ToolBox({"t": tool(approval=broken)(pay)})
    verdict = await box.needs_approval(AGENT, "t", {"order": "7"}, {})
    assert verdict.ask == CHECK_FAILED.format("KeyError: '7'")
