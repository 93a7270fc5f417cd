"""One call of a remote agent: how its answers become results, what can go wrong, and how its task
is found again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import pytest

from perdure.messages import FilePart, ImagePart, ToolResult
from perdure.tools.context import ToolContext
from perdure.tools.kind import OutcomeUnknown
from perdure.tools.remote.a2a_http import AgentError
from tests.support import a2a_odd as odd
from tests.support.a2a_agents import RemoteAgent, served
from tests.support.a2a_calls import KEY, agent_with, called, offered
from tests.support.waiting import wait_until

QUICK = {"reconnectTimeout": 0.1}


class Beats:
    """The context of a call, and what it has told by heartbeats."""

    def __init__(self, key: str = "run/1/0", **fields: Any) -> None:
        self.told: list[dict[str, str]] = []
        self.context = ToolContext(
            run_id="run", call_id="c", idempotency_key=key, heartbeat=self.told.append, **fields
        )

    def next_attempt(self) -> ToolContext:
        """The context of the attempt after this one."""
        return replace(
            self.context, attempt=2, last_heartbeat=(self.told[-1],) if self.told else ()
        )

    async def task_id(self) -> str:
        """The remote task's id, once it was told."""
        await wait_until(lambda: self.told)
        return self.told[-1]["taskId"]


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_what_an_agent_answers(binding: str) -> None:
    remote = RemoteAgent(binding=binding)
    async with remote.served() as url:
        agent = agent_with(url)
        offering = await offered(agent)
        results: dict[str, ToolResult] = {}
        for message in (
            "echo hi there",
            "direct yes",
            "pieces",
            "parts",
            "fail no window",
            "reject never",
            "stop",
        ):
            results[message] = await called(
                agent, offering, Beats(message).context, message=message
            )
    assert results["echo hi there"].text == "hi there"
    assert results["direct yes"].text == "yes"
    assert [part.kind for part in results["pieces"].parts] == ["text"]
    assert results["pieces"].text == "It rains."
    see, data, image, file, url_part, local, done = results["parts"].parts
    assert (see.value, data.value, done.value) == ("See:", '{"rain":[1,2.5]}', "Done.")  # type: ignore[union-attr]
    assert isinstance(image, ImagePart)
    assert (image.source, image.media_type) == ("iVBORw==", "image/png")
    assert isinstance(file, FilePart)
    assert (file.media_type, file.filename) == ("a/b", "f")
    assert isinstance(url_part, FilePart)
    assert url_part.source == "https://x.example/f.pdf"
    assert local.value == "[a file at file:///etc/passwd]"  # type: ignore[union-attr]
    assert [
        results[name].status for name in ("echo hi there", "direct yes", "pieces", "parts")
    ] == ["success"] * 4
    failed, rejected, stopped = results["fail no window"], results["reject never"], results["stop"]
    assert (failed.status, failed.error_kind) == ("error", "agent_failed")
    assert failed.text == "Error: The agent 'weather' has failed: no window"
    assert (rejected.status, rejected.error_kind) == ("error", "agent_rejected")
    assert (stopped.status, stopped.error_kind) == ("cancelled", "cancelled")


async def test_an_agent_that_asks_is_answered() -> None:
    remote = RemoteAgent()
    async with remote.served() as url:
        agent = agent_with(url)
        offering = await offered(agent)
        asked = await called(agent, offering, Beats("run/1/0").context, message="ask")
        assert (asked.status, asked.error_kind) == ("error", "input_required")
        assert asked.text.startswith(
            "Error: The agent 'weather' asks for input: Which city?\n[To answer, call this tool"
        )
        ids = dict(re.findall(r'(\w+_id) "([^"]+)"', asked.text))
        assert set(ids) == {"context_id", "task_id"}
        answered = await called(
            agent, offering, Beats("run/2/0").context, message="echo Berlin", **ids
        )
        assert (answered.status, answered.text) == ("success", "Berlin")
        locked = await called(agent, offering, Beats("run/3/0").context, message="auth")
        assert (locked.status, locked.error_kind) == ("error", "auth_required")


async def test_the_next_attempt_follows_the_same_task() -> None:
    remote = RemoteAgent()
    async with remote.served() as url:
        agent = agent_with(url)
        offering = await offered(agent)
        beats = Beats(superseded=yes)
        first = asyncio.create_task(called(agent, offering, beats.context, message="hold"))
        await beats.task_id()
        await stop(first)
        second = asyncio.create_task(called(agent, offering, beats.next_attempt(), message="hold"))
        remote.released.set()
        assert (await second).text == "It rained all the while."
    assert remote.executions == ["run/1/0"]
    assert remote.cancelled == []


@pytest.mark.parametrize("word", ["hold", "ask"])
async def test_a_task_that_no_attempt_has_told_of_is_found_by_its_message(word: str) -> None:
    remote = RemoteAgent()
    remote.released.set()
    async with remote.served() as url:
        agent = agent_with(url)
        offering = await offered(agent)
        beats = Beats()
        first = await called(agent, offering, beats.context, message=word)
        beats.told.clear()
        assert await called(agent, offering, beats.next_attempt(), message=word) == first
        assert remote.executions == ["run/1/0"]
        if word == "ask":
            [task_id] = re.findall(r'task_id "([^"]+)"', first.text)
            for context in (Beats("run/2/0").context, Beats("run/2/0").next_attempt()):
                assert (
                    await called(agent, offering, context, message="echo x", task_id=task_id)
                ).text == "x"
            assert remote.executions == ["run/1/0", "run/2/0"]


async def test_a_failed_task_is_begun_anew_only_where_the_file_says_so() -> None:
    remote = RemoteAgent()
    async with remote.served() as url:
        for policy, executions in (({}, 1), ({"retries": 1}, 2)):
            agent = agent_with(url, perdure=policy)
            offering = await offered(agent)
            beats = Beats(f"run/{executions}/0")
            first = await called(agent, offering, beats.context, message="fail x")
            beats.told.clear()
            assert await called(agent, offering, beats.next_attempt(), message="fail x") == first
            sent = [
                each for each in remote.executions if each.startswith(beats.context.idempotency_key)
            ]
            assert len(set(sent)) == executions


async def yes() -> bool:
    return True


async def stop(task: asyncio.Task[ToolResult]) -> None:
    """Cancel a call as its worker does."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancelled_call_cancels_the_remote_task() -> None:
    remote = RemoteAgent()
    async with remote.served() as url:
        agent = agent_with(url)
        beats = Beats()
        running = asyncio.create_task(
            called(agent, await offered(agent), beats.context, message="hold")
        )
        task_id = await beats.task_id()
        await stop(running)
        assert remote.cancelled == [task_id]


async def test_a_call_that_is_cancelled_while_it_is_sent() -> None:
    remote = RemoteAgent()
    async with remote.served() as url:
        agent = agent_with(url)
        running = asyncio.create_task(
            called(agent, await offered(agent), Beats().context, message="hold")
        )
        await wait_until(lambda: remote.executions)
        await stop(running)
        assert len(remote.cancelled) == 1


async def test_an_agent_that_is_away_for_a_while() -> None:
    remote = RemoteAgent()
    beats = Beats()
    async with remote.served() as url:
        agent = agent_with(url)
        running = asyncio.create_task(
            called(agent, await offered(agent), beats.context, message="hold")
        )
        task_id = await beats.task_id()
    requests: list[Any] = []

    async def not_now(request: Any) -> Any:
        requests.append(request)
        return await odd.answers("<html>", 503)(request)

    async with served(odd.server(not_now), port(url)):
        await wait_until(lambda: len(requests) > 1)
    await remote.finish(task_id, "It rained all the while.")
    async with remote.served(port(url)):
        assert (await asyncio.wait_for(running, 10)).text == "It rained all the while."
    assert len(remote.executions) == 1


def port(url: str) -> int:
    return int(url.rpartition(":")[2])


async def test_an_agent_that_stays_away() -> None:
    remote = RemoteAgent()
    beats = Beats()
    async with remote.served() as url:
        agent = agent_with(url, options=QUICK)
        running = asyncio.create_task(
            called(agent, await offered(agent), beats.context, message="hold")
        )
        task_id = await beats.task_id()
    with pytest.raises(
        AgentError, match=f"its task {task_id} can't be followed any more: it can't be reached"
    ):
        await asyncio.wait_for(running, 10)


async def test_an_agent_that_has_forgotten_the_task() -> None:
    remote = RemoteAgent()
    async with remote.served() as url:
        agent = agent_with(url)
        beats = Beats()
        beats.told.append({"state": "working", "taskId": "t", "contextId": "c"})
        with pytest.raises(
            AgentError,
            match="its task t can't be followed any more: it answers with an error: Task not",
        ):
            await called(agent, await offered(agent), beats.next_attempt(), message="hold")
    assert remote.executions == []


NONSENSE = [
    "<html>",
    "",
    "null",
    "[]",
    "7",
    "{}",
    '{"result": 5}',
    '{"result": []}',
    '{"result": "task"}',
    '{"result": {}}',
    '{"result": {"task": 3}}',
    '{"result": {"task": []}}',
    '{"result": {"task": {}}}',
    '{"result": {"task": {"id": "a/../b"}}}',
    '{"result": {"task": {"id": {"a": 1}}}}',
    '{"result": {"message": "hi"}}',
    '{"result": {"message": {"parts": [{"data": NaN}]}}}',
    '{"result": {"message": {"parts": 1}}}',
    '{"error": "no"}',
    '{"error": {"code": "x"}}',
    '{"error": {"code": -32603, "message": "broken"}}',
    '{"error": {"code": -32602}}',
    odd.nested(),
]


async def test_nonsense() -> None:
    bodies = [""]

    def answer(request: Any) -> Awaitable[Any]:
        return odd.answers(bodies[-1])(request)

    async with served(odd.server(answer, odd.card())) as url:
        agent = agent_with(url, options=QUICK)
        offering = await offered(agent)
        for body in NONSENSE:
            bodies.append(body)
            with pytest.raises(
                AgentError, match=r"^the agent at http://127.0.0.1:\d+ can't be used: "
            ) as caught:
                await asyncio.wait_for(called(agent, offering, message="x"), 5)
            assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (odd.answers("no", 401), "HTTP status 401: it does not let this worker in"),
        (odd.answers("no", 403), "HTTP status 403"),
        (odd.answers("<html>", 502), "HTTP status 502$"),
        (odd.answers("{}", 429), "HTTP status 429"),
        (odd.answers(" " * 5_000_000), "larger than 4,194,304 bytes"),
        (odd.answers(odd.bomb(), content_encoding="gzip"), "is compressed"),
        (
            odd.redirects("http://127.0.0.1:9/a2a"),
            "http://127.0.0.1:9/a2a is not on the host of the endpoint",
        ),
    ],
)
async def test_answers_that_are_none(answer: odd.Answer, problem: str) -> None:
    async with served(odd.server(answer, odd.card())) as url:
        agent = agent_with(url, options=QUICK, key=KEY)
        with pytest.raises(AgentError, match=problem) as caught:
            await asyncio.wait_for(called(agent, await offered(agent), message="x"), 10)
    assert KEY not in str(caught.value)
    assert isinstance(caught.value, OutcomeUnknown) == ("HTTP status 4" not in problem)


async def test_nobody_is_there_any_more() -> None:
    async with RemoteAgent().served() as url:
        agent = agent_with(url)
        offering = await offered(agent)
    with pytest.raises(
        AgentError, match=r"it can't be reached \(ConnectError\): is it running\?$"
    ) as caught:
        await called(agent, offering, message="x")
    assert not isinstance(caught.value, OutcomeUnknown)
