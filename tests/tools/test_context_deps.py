"""A run's deps: recorded as JSON, given to each function as the type that it names, and made
resources of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel, PrivateAttr, SecretStr

from perdure import Done, GuardrailResult, Guardrails, NotDone, ToolContext, run_input, tool
from perdure.agents import Agent
from perdure.errors import ConfigurationError, RunError
from perdure.json_types import JsonObject
from perdure.testing import asks, call, run_in_process, says
from perdure.tools import OutcomeUnknown, clear_tools
from perdure.tools.context import open_deps
from perdure.tools.dispatch import ToolBox
from perdure.tools.resources import Resources
from perdure.tools.user_loop import ThisLoop, UserLoop

from ..support.agents import tool_texts
from ..support.isolated_functions import tenant_of
from ..support.waiting import wait_for


class Deps(BaseModel):
    tenant: str
    since: date = date(2026, 1, 2)


@dataclass
class Plain:
    tenant: str


class Shop:
    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


DEPS = Deps(tenant="north")
seen: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_seen() -> Iterator[None]:
    seen.clear()
    yield
    clear_tools()


def agent(*names: str) -> Agent:
    return Agent(
        name="asked", tools=[{"name": name, "kind": "function", "parameters": []} for name in names]
    )


def typed(context: ToolContext[Deps]) -> str:
    seen.append(context.deps)
    return f"{context.deps.tenant} since {context.deps.since.year}"


def untyped(context: ToolContext) -> str:
    seen.append(context.deps)
    return f"{context.deps.tenant} since {context.deps['since']}"


def run(function: Callable[..., Any], deps: Any, **more: Any) -> str:
    name = function.__name__
    result = run_in_process(
        agent(name),
        model=[asks(call(name, "call_1")), says("Done.")],
        tools=[function],
        deps=deps,
        **more,
    )
    [answer] = tool_texts(result.messages)
    return answer


@pytest.mark.parametrize("deps", [DEPS, {"tenant": "north", "since": "2026-01-02"}])
def test_a_tool_has_them_as_the_type_that_it_names(deps: Any) -> None:
    assert run(typed, deps) == "north since 2026"
    assert seen == [DEPS]


def test_without_a_type_the_members_are_attributes() -> None:
    assert run(untyped, {"tenant": "north", "since": "2026-01-02"}) == "north since 2026-01-02"
    assert "have no 'owner': they have tenant, since" in run(_owner, DEPS)


def _owner(context: ToolContext) -> str:
    owner: str = context.deps.owner
    return owner


@pytest.mark.parametrize(
    ("deps", "why"),
    [
        (None, "without deps"),
        ({"owner": "x"}, r"'deps\.tenant'"),
        ("text", "are not of the type Deps"),
    ],
)
def test_others_fail_before_the_model_is_asked(deps: Any, why: str) -> None:
    with pytest.raises(
        RunError, match=rf"tool 'typed': the run's deps are not of the type Deps: .*|{why}"
    ) as error:
        run(typed, deps)
    assert error.value.kind == "configuration"
    assert error.value.iterations == 0


class Closed(BaseModel):
    _handle: Any = PrivateAttr(default=None)


def _with_handle() -> Closed:
    closed = Closed()
    closed._handle = object()
    return closed


class Keyed(BaseModel):
    key: SecretStr


@pytest.mark.parametrize(
    "deps",
    [
        object(),
        Shop("north"),
        {"shop": Shop("north")},
        {"at": date(2026, 1, 1)},
        Keyed(key="x"),
        float("nan"),
    ],
)
def test_what_json_does_not_give_back_is_a_resource(deps: Any) -> None:
    name = type(deps).__name__
    with pytest.raises(
        ConfigurationError, match=rf"deps of the type {name} can't be recorded.*\(resources="
    ):
        run_input(agent(), messages=[], deps=deps)


def test_private_parts_are_not_lost_silently() -> None:
    with pytest.raises(ConfigurationError, match="JSON gives back another value"):
        run_input(agent(), messages=[], deps=_with_handle())


def test_a_secret_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-secret-that-is-long-enough")
    with pytest.raises(ConfigurationError, match="it has a secret") as error:
        run_input(agent(), messages=[], deps={"key": "sk-a-secret-that-is-long-enough"})
    assert "sk-a" not in str(error.value)


@pytest.mark.parametrize(
    "deps", [DEPS, Plain("north"), {"tenant": "north"}, ["north"], "north", 7, 1.5, True]
)
def test_what_is_recorded_is_json(deps: Any) -> None:
    recorded = run_input(agent(), messages=[], deps=deps)["deps"]
    assert recorded in (
        {"tenant": "north", "since": "2026-01-02"},
        {"tenant": "north"},
        ["north"],
        "north",
        7,
        1.5,
        True,
    )
    assert "deps" not in run_input(agent(), messages=[])


def test_guardrails_have_them() -> None:
    def check_input(messages: list[Any], context: ToolContext[Deps]) -> GuardrailResult:
        seen.append(context.deps)
        return GuardrailResult(allowed=True)

    async def check_output(message: Any, context: ToolContext) -> GuardrailResult:
        return GuardrailResult(allowed=True, rewrite=f"{message.text} {context.deps.tenant}")

    def check_tool(name: str, arguments: JsonObject, context: ToolContext[Deps]) -> GuardrailResult:
        return GuardrailResult(allowed=False, reason=f"{context.call_id} of {context.deps.tenant}")

    guardrails = Guardrails(input=check_input, output=check_output, tool=check_tool)
    model = [asks(call("typed", "call_1")), says("Done.")]
    result = run_in_process(
        agent("typed"), model=model, tools=[typed], deps=DEPS, guardrails=guardrails
    )
    assert seen == [DEPS, DEPS]
    assert "Tool denied by guardrail: call_1 of north" in [
        message.text for message in result.messages
    ]
    assert result.output == "Done. north"


def test_a_guardrail_that_expects_others_denies() -> None:
    def check(message: Any, context: ToolContext[Deps]) -> GuardrailResult:
        return GuardrailResult(allowed=True)

    with pytest.raises(RunError, match="not of the type Deps: the run was started without deps"):
        run_in_process(agent(), [], model=[says("Done.")], guardrails=Guardrails(output=check))


def test_approval_checks_and_reconcile_functions_have_them() -> None:
    def asks_for(arguments: JsonObject, context: ToolContext[Deps]) -> bool:
        seen.append(context.deps)
        return False

    def find_out(arguments: JsonObject, key: str, context: ToolContext[Deps]) -> Done | NotDone:
        return Done(f"paid by {context.deps.tenant}")

    @tool(approval=asks_for, reconcile=find_out)
    async def pay(context: ToolContext) -> str:
        raise OutcomeUnknown("the connection was lost")

    model = [asks(call("pay", "call_1")), asks(call("pay", "call_2")), says("Done.")]
    result = run_in_process(agent("pay"), model=model, tools=[pay], deps=DEPS)
    texts = tool_texts(result.messages)
    assert "the connection was lost" in texts[0]
    assert texts[1] == "paid by north"
    assert seen == [DEPS, DEPS]


async def test_an_isolated_tool_has_them() -> None:
    box = ToolBox({"tenant_of": tool(isolated=True)(tenant_of)})
    result = await box.execute(
        agent("tenant_of"), "tenant_of", {}, {}, ToolContext(deps=open_deps({"tenant": "north"}))
    )
    assert result.text == "north"


def shop_of(context: ToolContext) -> str:
    shop = context.resource(Shop)
    seen.append(shop)
    return shop.tenant


def typed_factory(deps: Deps) -> Shop:
    return Shop(f"{deps.tenant}-{deps.since.year}")


class OfDeps(Shop):
    def __init__(self, deps: Deps) -> None:
        super().__init__(deps.tenant)


@pytest.mark.parametrize(
    ("factory", "tenant"),
    [(lambda deps: Shop(deps.tenant), "north"), (typed_factory, "north-2026"), (OfDeps, "north")],
    ids=["untyped", "typed", "class"],
)
def test_a_resource_is_made_of_them(factory: Callable[..., Any], tenant: str) -> None:
    assert run(shop_of, DEPS, resources={Shop: factory}) == tenant
    assert [shop.is_open for shop in seen] == [False]


def test_without_them_there_is_none() -> None:
    answer = run(shop_of, None, resources={Shop: lambda deps: Shop(deps.tenant)})
    assert "the resource Shop is made of the run's deps: start the run with deps=" in answer


@pytest.mark.parametrize("own_loop", [True, False])
async def test_equal_deps_share_one_and_others_never_do(own_loop: bool) -> None:
    resources = Resources(
        {Shop: lambda deps: Shop(deps.tenant)}, UserLoop() if own_loop else ThisLoop()
    )
    north, south = {"tenant": "north", "of": [1]}, {"tenant": "south"}
    found = await asyncio.gather(
        *(resources.values([Shop], deps) for deps in (north, south, north, dict(north)))
    )
    shops = [each[Shop] for each in found]
    assert [shop.tenant for shop in shops] == ["north", "south", "north", "north"]
    assert shops[0] is shops[2] is shops[3]
    if not own_loop:
        await resources.close()
        assert [shop.is_open for shop in shops] == [False] * 4


async def test_too_many_are_closed_those_first_that_were_not_needed_for_longest() -> None:
    made: list[Shop] = []

    def open_shop(deps: Any) -> Shop:
        made.append(Shop(deps.tenant))
        return made[-1]

    async def of(tenant: str) -> Any:
        return await resources.values([Shop], {"tenant": tenant})

    resources = Resources({Shop: open_shop}, ThisLoop(), max_idle=3)
    used = await of("used")
    for tenant in ("a", "b", "c", "b"):
        await of(tenant)

    async def open_shops(expected: list[str]) -> bool:
        return [shop.tenant for shop in made if shop.is_open] == expected

    await wait_for(lambda: open_shops(["used", "b", "c"]))
    await of("d")
    await wait_for(lambda: open_shops(["used", "b", "d"]))
    several = [await of(tenant) for tenant in ("e", "f", "g", "h")]
    await wait_for(lambda: open_shops(["used", "e", "f", "g", "h"]))
    assert [each[Shop].is_open for each in (used, *several)] == [True] * 5, "none in use is closed"
    await resources.close()
    assert not any(shop.is_open for shop in made)


def test_called_agents_inherit_them(tmp_path: Any) -> None:
    (tmp_path / "child.prompty").write_text(
        "---\nname: child\ntools:\n  - name: typed\n    kind: function\n---\nAsk."
    )
    parent = (
        "---\nname: parent\ntools:\n  - {name: child, kind: prompty, path: child.prompty, mode: "
        "agentic}\n---\nGo."
    )
    (tmp_path / "parent.prompty").write_text(parent)
    model = [
        asks(call("child", "call_1")),
        asks(call("typed", "call_2")),
        says("Asked."),
        says("Done."),
    ]
    run_in_process(tmp_path / "parent.prompty", model=model, tools=[typed], deps=DEPS)
    assert seen == [DEPS]
