"""A gateway that gets SIGTERM: what its open streams and requests say, and what it writes."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import httpx2

from perdure.client import RunHandle
from perdure.events import RunEvent
from perdure.json_types import JsonObject
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, says

from ..support.command_line import Cli
from ..support.stage import Stage

AGENT = (
    "---\nname: clerk\nmodel: {{id: m, connection: {{kind: key, endpoint: "
    '"{endpoint}"}}}}\n---\nuser:\nHi\n'
)
TEXT = " ".join(f"w{number}" for number in range(50))
GRACE = 4.0
STREAM = {"Accept": "application/json, text/event-stream", "A2A-Version": "1.0"}


class Replies:
    """A long text, or a short one that waits until it is let through."""

    def __init__(self) -> None:
        self.reached, self.open = threading.Event(), threading.Event()

    def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        if "quickly" not in request.messages[-1].text:
            return says(TEXT, chunk_delay=0.5)
        self.reached.set()
        self.open.wait(60)
        return says("Done.")


def data_of(text: str) -> list[Any]:
    """What the events of a stream say."""
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


Ends = Callable[[str], bool]
Asked = tuple[str, JsonObject]


def streams(name: str) -> list[tuple[Asked, Ends]]:
    """One of each protocol, and whether its last words are those of a stream that another gateway
    can go on with.
    """
    said = {"role": "user", "content": name}
    part = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": name}]}
    thread = {"threadId": f"ag-{name}", "runId": "r1", "messages": [{"id": "m1", **said}]}
    sent = {"messageId": name, "role": "ROLE_USER", "parts": [{"text": name}]}
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": sent}}
    tool = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "clerk", "arguments": {}},
    }
    return [
        (
            ("/v1/chat/completions", {"model": "clerk", "messages": [said], "stream": True}),
            lambda text: (
                data_of(text)[-1]["error"]["code"] == "ending" and text.endswith("[DONE]\n\n")
            ),
        ),
        (
            (
                "/v1/responses",
                {"model": "clerk", "input": name, "stream": True, "background": True},
            ),
            lambda text: (
                data_of(text)[-1]["response"]["error"]["code"] == "ending"
                and data_of(text)[-1]["sequence_number"] >= data_of(text)[-2]["sequence_number"] > 0
            ),
        ),
        (
            ("/ai/clerk", {"id": f"ai-{name}", "messages": [part]}),
            lambda text: text.endswith("(broken off)"),
        ),
        (
            ("/ag-ui/clerk", thread),
            lambda text: data_of(text)[-1]["code"] == "ending",
        ),
        (
            ("/a2a/clerk", rpc),
            lambda text: (
                data_of(text)[-1]["result"]["statusUpdate"]["status"]["state"]
                == "TASK_STATE_WORKING"
            ),
        ),
        (
            (f"/api/chat/oct-{name}/send", {"message": name, "messageId": name}),
            lambda text: data_of(text)[-2]["kind"] == "ending",
        ),
        (
            ("/mcp/", tool),
            lambda text: (
                "call the tool 'result'" in data_of(text)[-1]["result"]["content"][0]["text"]
            ),
        ),
    ]


async def ask(http: httpx2.AsyncClient, asked: Asked, begun: asyncio.Event) -> str:
    """What a stream says to its end."""
    address, body = asked
    text = ""
    try:
        async with http.stream("POST", address, json=body, headers=STREAM) as answer:
            assert answer.status_code == 200, (address, await answer.aread())
            begun.set()
            async for piece in answer.aiter_text():
                text += piece
    except httpx2.RemoteProtocolError:
        text += "(broken off)"
    return text


async def read_own(http: httpx2.AsyncClient, run: str, begun: asyncio.Event) -> tuple[str, str]:
    """The text in the stream of perdure's own API, and the position that its end names."""
    text, last = "", JsonObject()
    async with http.stream("GET", f"/perdure/runs/{run}/events", headers=STREAM) as answer:
        async for line in answer.aiter_lines():
            begun.set()
            last = json.loads(line[6:]) if line.startswith("data: ") else last
            text += (
                last["data"]["token"]
                if line.startswith("data: ") and last.get("type") == "token"
                else ""
            )
    return text, last["after"]


async def whole(http: httpx2.AsyncClient, text: str) -> httpx2.Response:
    """The answer to a request that waits for it."""
    body = {"model": "clerk", "messages": [{"role": "user", "content": text}]}
    return await http.post("/v1/chat/completions", json=body)


async def test_open_streams_say_where_to_go_on_and_nothing_else_is_written(
    cli: Cli, stage: Stage, tmp_path: Path
) -> None:
    replies = Replies()
    with ScriptedModel(replies) as model:
        file = tmp_path / "clerk.prompty"
        file.write_text(AGENT.format(endpoint=model.openai_endpoint))
        options = (
            "--task-queue",
            stage.task_queue,
            "--port",
            "0",
            "--grace",
            str(GRACE),
            "--log-format",
            "json",
        )
        gateway = await cli.start("serve", str(file), *options)
        url = json.loads(await gateway.says("Gateway: "))["message"].split()[1]
        async with (
            stage.worker(graceful_shutdown_timeout=timedelta(0)),
            httpx2.AsyncClient(
                base_url=url, timeout=60, limits=httpx2.Limits(max_connections=200)
            ) as http,
        ):
            cases = streams(stage.task_queue)
            begun = [asyncio.Event() for _ in range(len(cases) + 1)]
            asking = [
                asyncio.create_task(ask(http, asked, at))
                for (asked, _), at in zip(cases, begun, strict=False)
            ]
            run = (await http.post("/perdure/runs", json={"agent": "clerk"})).json()["id"]
            own = asyncio.create_task(read_own(http, run, begun[-1]))
            async with asyncio.timeout(60):
                await asyncio.gather(*(event.wait() for event in begun))
            wholes = [asyncio.create_task(whole(http, text)) for text in ("quickly", "slowly")]
            assert await asyncio.to_thread(replies.reached.wait, 60)
            gateway.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.2)
            replies.open.set()
            late, ready = await whole(http, "late"), await http.get("/health/ready")
            told = await asyncio.gather(*asking)
            quick, slow = await asyncio.gather(*wholes)
            text, position = await own
            finished = await gateway.finish()
            async with aclosing(
                cast(AsyncGenerator[RunEvent, None], RunHandle(stage.client, run).stream(position))
            ) as events:
                following = await anext(events)
    for said, ((address, _), says_it) in zip(told, cases, strict=True):
        assert says_it(said), (address, said[-500:])
    assert TEXT.startswith(text + following.data["token"]), (
        "another gateway goes on behind the position"
    )
    assert (late.status_code, late.headers["retry-after"], ready.status_code) == (503, "1", 503)
    assert quick.json()["choices"][0]["message"]["content"] == "Done."
    assert (slow.status_code, slow.headers["retry-after"]) == (503, "1")
    assert slow.headers["x-should-retry"] == "false", (
        "without a key another gateway would start it again"
    )
    assert slow.headers["x-perdure-run"]
    assert finished.code == 0
    assert [
        each for each in map(json.loads, finished.stderr.splitlines()) if each["level"] != "info"
    ] == []
