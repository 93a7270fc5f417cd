"""A worker that waits imports what its first run needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Literal

import pytest

from perdure.testing import ScriptedModel, asks, call, says
from perdure.worker.first_imports import likely_sdks

from ..support.agents import Scripted

WORKER = """
import asyncio, importlib, json, os, sys, uuid
import perdure
from perdure.activities.pollers import ACTIVITIES, somebody_polls
from perdure.client import connect, start_run
from perdure.protocol.run import rate_queue
from perdure.worker import create_worker

address, endpoint, wait = sys.argv[1:]

@perdure.tool
def look(what: str) -> str:
    return what

async def main():
    client, queue = await connect(address), f"first-{uuid.uuid4()}"
    model = {"id": "m", "connection": {"kind": "anonymous", "endpoint": endpoint}}
    tool = {"name": "look", "kind": "function", "parameters": [{"name": "what", "kind": "string"}]}
    agent = perdure.load_dict({"name": "first", "model": model, "tools": [tool]})
    rates = {"openai": 100.0} if wait == "for permits" else None
    async with create_worker(client, task_queue=queue, tools=[look], model_rate=rates):
        if wait == "for imports":
            while "anyio._backends._asyncio" not in sys.modules:
                await asyncio.sleep(0.02)
            await asyncio.to_thread(importlib.import_module, "anyio._backends._asyncio")  # waits for its end
        if wait == "for permits":
            while not await somebody_polls(client, rate_queue(queue, "openai"), ACTIVITIES):
                await asyncio.sleep(0.02)
        before = set(sys.modules)
        run = await start_run(client, agent, messages=[perdure.Message.user("Go on.")], task_queue=queue)
        await run.result()
        late = {name.partition(".")[0] for name in set(sys.modules) - before}
    print(json.dumps(sorted(late)), "anthropic" in sys.modules, flush=True)

asyncio.run(main())
os._exit(0)  # the interpreter's own shutdown may crash in the Temporal SDK
"""


Wait = Literal["", "for imports", "for permits"]


def first_run(
    address: str, model: ScriptedModel, *, wait: Wait, has_key: bool
) -> tuple[list[str], bool]:
    """What the first run of a new worker imports, and whether the worker has imported another
    provider's SDK.
    """
    environment = {
        name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")
    }
    environment |= {"OPENAI_API_KEY": "a-key-that-opens-nothing"} if has_key else {}
    command = [sys.executable, "-c", WORKER, address, model.openai_endpoint, wait]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    late, other = done.stdout.splitlines()[-1].rsplit(" ", 1)
    return json.loads(late), other == "True"


async def test_the_first_run_imports_nothing(address: str, scripted: Scripted) -> None:
    model = scripted([asks(call("look", what="this")), says("done")])
    assert first_run(address, model, wait="for imports", has_key=True) == ([], False)


async def test_a_worker_that_has_a_run_at_once_imports_what_that_needs(
    address: str, scripted: Scripted
) -> None:
    late, other = first_run(address, scripted([says("done")]), wait="", has_key=False)
    assert "openai" in late
    assert not other


def test_a_provider_that_cannot_be_imported_keeps_no_other_from_it() -> None:
    script = (
        "import sys; from perdure.worker.first_imports import import_providers; "
        "import_providers(['absent', 'openai']); print('openai' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["True"]


@pytest.mark.parametrize(
    ("keys", "likely"),
    [
        ((), []),
        (("ANTHROPIC_API_KEY",), ["anthropic"]),
        (("ANTHROPIC_API_KEY", "AZURE_OPENAI_API_KEY"), ["openai", "anthropic"]),
    ],
)
def test_the_sdks_with_a_key_are_likely(
    monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...], likely: list[str]
) -> None:
    for name in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in keys:
        monkeypatch.setenv(name, "set")
    assert likely_sdks() == likely
