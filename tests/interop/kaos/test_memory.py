"""The calls of KAOS's memory, on sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import pytest

from perdure.client.deletion import delete_session
from perdure.errors import ConfigurationError, ExecuteError
from perdure.interop.kaos import (
    KaosMemory,
    MemoryEvent,
    NullMemory,
    memory_from_environment,
    run_events,
)
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, asks, call, says
from tests.support.agents import scripted_agent
from tests.support.stage import Stage
from tests.support.waiting import wait_for


def replies(request: ScriptedRequest) -> ScriptedReply:
    """Uses the calculator for whatever is asked, then says what it has found; fails when it is told
    so.
    """
    last = request.messages[-1]
    if last.text == "fail":
        return ScriptedReply(status=400, error="broken")
    return (
        asks(call("calculator", text=last.text))
        if last.role == "user"
        else says(f"It is {last.text}.")
    )


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(replies) as model:
        yield model


@pytest.fixture(scope="module")
async def memory(server: Any, model: ScriptedModel) -> AsyncIterator[KaosMemory]:
    stage = Stage(server.client, f"test-{uuid4()}")
    agent = scripted_agent(model, ["calculator"])
    async with stage.worker({"calculator": lambda text="": str(len(text))}):
        yield KaosMemory(server.client, agent, task_queue=stage.task_queue)


async def said(memory: KaosMemory, session: str, *texts: str, **more: Any) -> str:
    for text in texts:
        await (await memory.session(session).send(text, **more)).result()
    return session


def types(events: list[MemoryEvent]) -> list[str]:
    return [event.event_type for event in events]


PAGE = ["user_message", "tool_call", "tool_result", "agent_response"]


async def test_the_pages_call(memory: KaosMemory) -> None:
    session_id = await said(memory, await memory.create_session("agent", "ann"), "2+2")
    events = await memory.get_session_events(session_id)
    assert types(events) == PAGE
    assert events == await run_events(memory._client, f"{session_id}/1")
    assert await memory.build_conversation_context(session_id) == "User: 2+2\nAssistant: It is 3."
    await said(memory, session_id, "22+22")
    assert types(await memory.get_session_events(session_id)) == PAGE * 2
    answers = await memory.get_session_events(session_id, ["agent_response"])
    assert [event.content for event in answers] == ["It is 3.", "It is 5."]
    assert (
        await memory.build_conversation_context(session_id, max_events=1) == "Assistant: It is 5."
    )
    found = await memory.get_session(session_id)
    assert found is not None
    assert (found.session_id, found.user_id, found.app_name) == (session_id, "ann", "tested")
    assert types(list(found.events)) == PAGE * 2
    assert found.created_at < found.updated_at
    assert found.to_dict()["events"][0]["content"] == "2+2"


async def test_a_delegated_task_and_a_failure(memory: KaosMemory) -> None:
    session_id = await said(memory, f"kaos-{uuid4()}", "Find it", role="task-delegation")
    with pytest.raises(ExecuteError):
        await said(memory, session_id, "fail")
    events = await memory.get_session_events(session_id)
    assert types(events) == ["task_delegation_received", *PAGE[1:], "user_message", "error"]
    assert events[0].content == "Find it"
    assert events[-1].content.startswith("Error processing message: ")


async def test_events_of_others_are_added_to_an_open_session(
    memory: KaosMemory, caplog: pytest.LogCaptureFixture
) -> None:
    session_id = await said(memory, await memory.get_or_create_session(f"kaos-{uuid4()}"), "1")
    assert await memory.get_or_create_session(session_id) == session_id
    assert await memory.add_event(session_id, "reviewed", {"by": "Ann"}, {"ticket": 7})
    assert await memory.add_event(session_id, memory.create_event("reviewed", "again"))
    await said(memory, session_id, "2")

    async def added() -> list[MemoryEvent]:
        return await memory.get_session_events(session_id, ["reviewed"])

    reviewed = await wait_for(added)
    assert [(event.content, event.metadata) for event in reviewed] == [
        ({"by": "Ann"}, {"ticket": 7}),
        ("again", {}),
    ]
    assert types(await memory.get_session_events(session_id)) == [
        *PAGE,
        "reviewed",
        "reviewed",
        *PAGE,
    ]
    assert not await memory.add_event("nobody", "reviewed")
    assert not await memory.add_event(f"{session_id}/1", "reviewed"), "a run is no session"
    assert "session nobody: there is none that is open" in caplog.text


async def test_sessions_are_listed_counted_and_removed(memory: KaosMemory) -> None:
    user = f"user-{uuid4()}"
    first, second = [await memory.create_session("agent", user) for _ in range(2)]
    await said(memory, first, "1")

    async def listed() -> bool:
        return await memory.list_sessions(user) == [first, second]

    await wait_for(listed)
    newest = KaosMemory(memory._client, max_sessions=2)
    assert await newest.get_memory_stats() == {
        "total_sessions": 2,
        "total_events": 4,
        "avg_events_per_session": 2,
    }
    assert await memory.cleanup_old_sessions() == 0
    assert await KaosMemory(memory._client, max_sessions=1).list_sessions(user) == [second]
    assert await memory.delete_session(first)
    assert await memory.get_session(first) is None
    assert await memory.get_session_events(first) == []
    assert await memory.build_conversation_context(first) == ""
    assert not await memory.delete_session(first)
    assert await memory.list_sessions(user) == [second]


async def test_a_session_s_id_is_no_query(memory: KaosMemory) -> None:
    """What is removed is the session of that id, whatever it looks like."""
    id = """\\' OR WorkflowId != "x" -- it's back\\slash"""
    other = await said(memory, f"kaos-{uuid4()}", "1")
    await memory.create_session(session_id=id)

    async def listed() -> bool:
        return {other, id} <= set(await memory.list_sessions())

    await wait_for(listed)
    assert len(await delete_session(memory._client, id)) == 1
    assert len(await memory.get_session_events(other)) == 4


async def test_the_environment_says_which_memory_and_how_much(memory: KaosMemory) -> None:
    client = memory._client
    assert isinstance(
        memory_from_environment(client, environment={"MEMORY_ENABLED": "false"}), NullMemory
    )
    limits = {
        "MEMORY_ENABLED": "true",
        "MEMORY_TYPE": "redis",
        "MEMORY_REDIS_URL": "redis://127.0.0.1:9",
        "MEMORY_MAX_SESSIONS": "7",
        "MEMORY_MAX_SESSION_EVENTS": "2",
    }
    small = memory_from_environment(client, environment=limits)
    assert isinstance(small, KaosMemory)
    assert small.max_sessions == 7
    session_id = await said(memory, f"kaos-{uuid4()}", "1", "2")
    assert types(await small.get_session_events(session_id)) == PAGE[2:]
    with pytest.raises(
        ConfigurationError, match="MEMORY_MAX_SESSIONS='many': Input should be a valid int"
    ):
        memory_from_environment(client, environment={"MEMORY_MAX_SESSIONS": "many"})
    with pytest.raises(ConfigurationError, match="MEMORY_ENABLED='maybe'"):
        memory_from_environment(client, environment={"MEMORY_ENABLED": "maybe"})


async def test_no_memory_takes_every_call() -> None:
    memory = NullMemory()
    assert await memory.create_session("a", "b") == "null-session"
    assert await memory.get_or_create_session("x") == "x"
    assert await memory.add_event("x", memory.create_event("any", 1))
    assert (await memory.get_session("x"), await memory.get_session_events("x")) == (None, [])
    assert await memory.build_conversation_context("x") == ""
    assert (await memory.list_sessions(), await memory.cleanup_old_sessions()) == ([], 0)
    assert await memory.delete_session("x")
    assert set((await memory.get_memory_stats()).values()) == {0}
