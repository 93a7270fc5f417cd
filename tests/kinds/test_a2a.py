"""Remote agents as tools (`kind: a2a`), in runs on a real server."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from datetime import timedelta

import pytest

from perdure import RunCancelled

from ..support.a2a_agents import Later, RemoteAgent
from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.documents import manual
from ..support.remote_weather import asking, has_told, weather
from ..support.stage import Stage
from ..support.waiting import wait_for

KEY = "a-very-secret-key-of-the-office"


async def test_a_run_asks_a_remote_agent(
    stage: Stage, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFICE_KEY", KEY)
    remote = RemoteAgent(key=KEY)
    model = scripted(asking("echo rain", f"echo {KEY}"))
    async with remote.served() as url, stage.worker():
        tool = weather(url)
        tool["connection"]["apiKey"] = "${env:OFFICE_KEY}"
        run = await stage.start(scripted_agent(model, [tool]))
        result = await run.result()
    assert tool_texts(result.messages) == ["rain", "${env:OFFICE_KEY}"]
    assert remote.requests.count("card") == 1
    assert len(set(remote.executions)) == 2
    [offered] = model.requests[0].body["tools"]
    assert offered["function"]["description"].startswith("Knows the weather.")
    history = await stage.client.get_workflow_handle(run.id).fetch_history()
    types = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in history.events
    ]
    assert types.count("perdure.inventory") == 1
    assert types.count("perdure.tool.weather") == 2


async def test_the_agent_of_the_page(stage: Stage, scripted: Scripted) -> None:
    page = manual("guides/other-agents.md")
    [code] = re.findall(r"```python\n(import uvicorn.*?)```", page, re.DOTALL)
    async with Later() as later, stage.worker():
        exec(code.replace("http://127.0.0.1:9000", later.url), names := {"__name__": "echo_agent"})
        later.app = names["app"]
        run = await stage.start(scripted_agent(scripted(asking("hello")), [weather(later.url)]))
        assert tool_texts((await run.result()).messages) == ["You said: hello"]


async def test_a_run_that_is_cancelled_while_there_is_no_worker(
    stage: Stage, scripted: Scripted
) -> None:
    remote = RemoteAgent()
    async with remote.served() as url:
        async with stage.worker(graceful_shutdown_timeout=timedelta(seconds=0.1)):
            run = await stage.start(scripted_agent(scripted(asking("hold")), [weather(url)]))
            await wait_for(lambda: has_told(stage.client, run))
        await run.cancel()
        async with stage.another_worker():
            with pytest.raises(RunCancelled) as caught:
                await asyncio.wait_for(run.result(), 20)
    assert len(remote.cancelled) == 1
    assert len(remote.executions) == 1
    assert caught.value.messages[-1].metadata["status"] == "cancelled"


def test_the_package_is_an_extra() -> None:
    code = """
import asyncio, sys
sys.modules["a2a"] = None
from perdure.tools import ToolOfferError
from tests.support.a2a_calls import agent_with, offered
try:
    asyncio.run(offered(agent_with("http://127.0.0.1:9")))
except ToolOfferError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (
        done.stdout
        == "tools of kind a2a need a package that is not installed: pip install 'perdure[a2a]'\n"
    )


def test_the_http_client_is_imported_where_models_are_called() -> None:
    """The OpenAI SDK uses httpx as soon as `sys.modules` has it, although another thread may still
    be importing it.
    """
    code = """
import sys
from perdure.tools.kind import Kinds
assert "httpx" not in sys.modules
Kinds().get("a2a")
assert "httpx" in sys.modules and "a2a" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
