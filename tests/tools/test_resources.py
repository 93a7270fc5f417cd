"""What tools share: opened once, on the loop of async tools, given by type, closed with the
worker.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from perdure import ToolContext, tool
from perdure.agents import Agent
from perdure.errors import ConfigurationError
from perdure.tools import clear_tools
from perdure.tools.dispatch import ToolBox
from perdure.tools.kind import Asking
from perdure.tools.resources import Resources
from perdure.tools.results import ResourceError
from perdure.tools.user_loop import UserLoop

from ..support.waiting import wait_for

events: list[str] = []
CALL: contextvars.ContextVar[str] = contextvars.ContextVar("call")


class Database:
    def find(self, name: str) -> str:
        return f"row of {name}"


class Cache:
    pass


@pytest.fixture(autouse=True)
def _no_events() -> Iterator[None]:
    events.clear()
    yield
    clear_tools()


def find(name: str, database: Database) -> str:
    """Find a row."""
    return database.find(name)


async def find_slowly(name: str, context: ToolContext) -> str:
    return context.resource(Database).find(name)


def made() -> Database:
    events.append("opened")
    return Database()


async def made_slowly() -> Database:
    await asyncio.sleep(0.05)
    return made()


def yielded() -> Iterator[Database]:
    yield made()
    events.append("closed")


async def yielded_slowly() -> AsyncIterator[Database]:
    yield await made_slowly()
    events.append("closed")


@asynccontextmanager
async def entered() -> AsyncIterator[Database]:
    async with asyncio.timeout(None):  # to be left in the task that has entered it
        yield made()
    events.append("closed")


class Closing(Database):
    async def aclose(self) -> None:
        events.append("closed")


def closing() -> Closing:
    events.append("opened")
    return Closing()


def agent(*names: str) -> Agent:
    return Agent.model_validate({"tools": [{"name": name} for name in names]})


@pytest.mark.parametrize("factory", [made, made_slowly, yielded, yielded_slowly, entered, closing])
@pytest.mark.parametrize("own_loop", [True, False])
async def test_a_resource_is_opened_once_and_closed(
    factory: Callable[[], Any], own_loop: bool
) -> None:
    loop = UserLoop() if own_loop else None
    box = ToolBox([find, find_slowly], resources={Database: factory}, loop=loop)
    tools = agent("find", "find_slowly")
    calls = [
        box.execute(tools, name, {"name": "a"}, {})
        for name in ("find", "find_slowly")
        for _ in range(10)
    ]
    results = await asyncio.gather(*calls)
    assert {result.text for result in results} == {"row of a"}
    await box.close()
    assert events == (["opened"] if factory in (made, made_slowly) else ["opened", "closed"])


async def test_the_model_never_sees_it() -> None:
    box = ToolBox([tool(find)], resources={Database: made})
    found = await box.inventory(Asking(agent("find"), {}))
    assert found.problems == []
    [declared] = found.offered
    assert [prop.name for prop in declared.parameters] == ["name"]  # type: ignore[union-attr]
    refused = await box.execute(agent("find"), "find", {"name": "a", "database": {}}, {})
    assert (
        refused.text
        == "Error: Invalid arguments for tool 'find': unknown argument 'database': expected name"
    )
    assert events == []


async def test_one_that_can_t_be_opened_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    tries = []

    async def connect() -> Database:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("refused")
        return made()

    box = ToolBox([find], resources={Database: connect})
    first = await box.execute(agent("find"), "find", {"name": "a"}, {})
    assert first.text == (
        "Error: Tool 'find' failed: ResourceError: the resource Database can't be opened: OSError: "
        "refused"
    )
    assert (await box.execute(agent("find"), "find", {"name": "a"}, {})).text == "row of a"
    assert [record.exc_info for record in caplog.records] == [None]
    assert "the resource Database can't be opened: OSError: refused" in caplog.text


async def test_one_that_fails_to_close_is_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def connect() -> AsyncIterator[Database]:
        yield made()
        raise OSError("gone")

    box = ToolBox([find], resources={Database: connect})
    await box.execute(agent("find"), "find", {"name": "a"}, {})
    await box.close()
    assert [record.getMessage() for record in caplog.records] == [
        "The resource Database failed to close: OSError: gone"
    ]
    assert caplog.records[0].exc_info is None


async def test_those_that_were_opened_last_are_closed_first() -> None:
    def cache() -> Iterator[Cache]:
        yield Cache()
        events.append("cache closed")

    async def both(database: Database, cache: Cache) -> str:
        return "ok"

    box = ToolBox([both], resources={Database: yielded, Cache: cache})
    await box.execute(agent("both"), "both", {}, {})
    await box.close()
    assert events == ["opened", "cache closed", "closed"]


async def test_a_type_that_the_worker_does_not_have() -> None:
    async def ask(context: ToolContext) -> None:
        context.resource(Cache)

    box = ToolBox([ask], resources={Database: made})
    result = await box.execute(agent("ask"), "ask", {}, {})
    assert "no resource of type Cache: this worker has Database" in result.text


def test_a_factory_that_is_none() -> None:
    with pytest.raises(
        ConfigurationError, match="expected a class, and a function that makes an object of it"
    ):
        ToolBox(resources={Database: Database()})  # type: ignore[dict-item]


async def test_a_factory_that_ends_or_cancels_itself_is_an_error_and_the_loop_goes_on() -> None:
    def ends() -> Database:
        raise SystemExit("no database")

    async def cancels() -> Cache:
        raise asyncio.CancelledError

    def find_nothing(cache: Cache) -> str:
        return "found"

    loop = UserLoop()
    async with loop.hold():
        box = ToolBox(
            {"find": find, "find_nothing": find_nothing},
            resources={Database: ends, Cache: cancels},
            loop=loop,
        )
        thread = loop.get()
        for name, why in (
            ("find", "Database can't be opened: RuntimeError: SystemExit: no database"),
            ("find_nothing", "Cache can't be opened: it was cancelled"),
        ):
            agent = Agent(name="a", tools=[{"name": name, "kind": "function"}])
            result = await box.execute(
                agent, name, {"name": "x"} if name == "find" else {}, {}, timeout=10
            )
            assert why in result.text, result.text
        assert loop.get() is thread
        await box.close()


async def test_a_resource_is_opened_in_no_calls_context() -> None:
    """It serves all calls: the first one's activity and span are not its own."""
    seen: list[str] = []

    def open_database() -> Database:
        seen.append(CALL.get("none"))
        return Database()

    CALL.set("the first call")
    box = ToolBox([find], resources={Database: open_database}, registered=False)
    result = await box.execute(agent("find"), "find", {"name": "x"}, {})
    assert (result.text, seen) == ("row of x", ["none"])
    await box.close()


async def test_an_opening_that_hangs_is_abandoned_and_tried_again() -> None:
    loop, attempts = UserLoop(), list[int]()

    async def hang_once() -> Database:
        attempts.append(1)
        await asyncio.sleep(60 if len(attempts) == 1 else 0)
        return made()

    async with loop.hold():
        resources = Resources({Database: hang_once}, loop, opening_seconds=0.1)
        first = (await resources.values([Database]))[Database]
        assert isinstance(first, ResourceError)
        assert str(first).endswith("can't be opened: TimeoutError: it was not open within 0.1 s")
        assert isinstance((await resources.values([Database]))[Database], Database)


async def test_a_function_that_outlives_its_time_keeps_what_was_opened_for_it() -> None:
    loop, ended, found = UserLoop(), threading.Event(), list[str]()

    def of_deps(deps: Any) -> Iterator[Database]:
        yield Database()
        events.append(deps.tenant)

    def find_late(name: str, database: Database) -> None:
        ended.wait(20)
        found.extend(events)

    async def is_closed() -> bool:
        await box._resources.values([Database], {"tenant": "west"})
        return "north" in events

    async with loop.hold():
        box = ToolBox([find_late], loop=loop)
        box._resources = Resources({Database: of_deps}, loop, max_idle=0)
        context = ToolContext(deps={"tenant": "north"})
        late = await box.execute(
            agent("find_late"), "find_late", {"name": "a"}, {}, context, timeout=0.1
        )
        assert late.status == "timeout"
        await box._resources.values([Database], {"tenant": "south"})
        assert not await is_closed()
        ended.set()
        await wait_for(is_closed)
    assert "north" not in found


async def test_an_opening_that_blocks_the_loop_delays_others_until_its_call_ends() -> None:
    loop, unblock = UserLoop(), threading.Event()

    async def neighbour() -> str:
        return "answered"

    def block() -> Database:
        unblock.wait(20)
        return made()

    async with loop.hold():
        box = ToolBox([find, neighbour], resources={Database: block}, loop=loop)
        blocker = asyncio.create_task(
            box.execute(agent("find"), "find", {"name": "a"}, {}, timeout=1.5)
        )
        async with asyncio.timeout(20):
            while not box._resources.open_ones:
                await asyncio.sleep(0)
        answer = await box.execute(agent("neighbour"), "neighbour", {}, {}, timeout=10)
        unblock.set()
        assert (await blocker).status == "timeout"
    assert answer.text == "answered"
