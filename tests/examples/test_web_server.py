"""The web server of the examples: a run is started, followed, approved and read over HTTP."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator

import httpx
import pytest
import uvicorn
from temporalio.client import Client

from perdure.json_types import JsonObject
from perdure.testing import asks, says
from perdure.tools import clear_tools
from perdure.tools.handlers import load_tools
from perdure.worker import create_worker

from ..support.agents import Scripted
from ..support.documents import ROOT
from ..support.waiting import wait_for

EXAMPLE = ROOT / "examples" / "web_server"
REPLIES = [
    asks("look_up", order="7"),
    asks("refund", order="7", euros=30),
    says("You get 30 euros back."),
]


def test_the_page_shows_the_example() -> None:
    page = (ROOT / "docs" / "guides" / "web-servers.md").read_text()
    for name in ("app.py", "clerk.prompty"):
        assert (EXAMPLE / name).read_text().strip() in page, (
            f"docs/guides/web-servers.md shows another {name}"
        )


@pytest.fixture
async def web(address: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    """The example's app, served over HTTP, with the session's server."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    specification = importlib.util.spec_from_file_location("web_app", EXAMPLE / "app.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    server = uvicorn.Server(uvicorn.Config(module.app, port=0, log_level="error"))
    serving = asyncio.create_task(server.serve())
    await wait_for(lambda: asyncio.sleep(0, server.started))
    port = server.servers[0].sockets[0].getsockname()[1]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as browser:
        yield browser
    server.should_exit = True
    await serving
    clear_tools()


async def test_a_refund_is_asked_for_and_approved(
    client: Client,
    web: httpx.AsyncClient,
    scripted: Scripted,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", scripted(REPLIES).openai_endpoint)
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-the-test")
    async with create_worker(client, tools=load_tools(str(EXAMPLE / "tools.py"))):
        for _ in range(2):
            started = await web.post("/runs", json={"id": "7", "question": "Where is my money?"})
            assert (started.status_code, started.json()) == (202, {"id": "clerk-7"})

        async def waiting() -> list[JsonObject]:
            found: list[JsonObject] = (await web.get("/runs/clerk-7")).json()["pending_approvals"]
            return found

        (call,) = await wait_for(waiting)
        decision = {"call_id": call["call_id"], "digest": call["digest"], "by": "ada"}
        refused = await web.post("/runs/clerk-7/approvals", json={**decision, "digest": "another"})
        assert refused.status_code == 409
        assert (await web.post("/runs/clerk-7/approvals", json=decision)).json() == {
            "approved": call["call_id"]
        }
        told = await web.get("/runs/clerk-7/events")
        events = [
            line.removeprefix("event: ")
            for line in told.text.splitlines()
            if line.startswith("event: ")
        ]
        assert (events[-1], events.count("done"), events.count("tool_call_start")) == ("done", 1, 2)
        last = told.text.rpartition("id: ")[2].partition("\n")[0]
        again = await web.get("/runs/clerk-7/events", headers={"Last-Event-ID": last})
        assert again.text == ""
        assert (await web.get("/runs/clerk-8")).status_code == 404
