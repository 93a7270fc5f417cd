"""The help desk: four kinds of tools in one run, with a refund that a person approves."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from perdure.cli.agent_file import scripted_agent
from perdure.client import start_run
from perdure.prompty.load import load
from perdure.tools import clear_tools
from perdure.tools.handlers import load_tools
from perdure.worker import create_worker

from ..support.stage import Stage, replay_run
from ..support.waiting import wait_for

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples" / "help_desk"


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    specification = importlib.util.spec_from_file_location("shop_service", EXAMPLE / "shop_service.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    server = module.serve(0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("SHOP_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.chdir(REPOSITORY)
    yield module
    server.shutdown()
    server.server_close()
    clear_tools()


async def test_the_refund_is_made_once_a_person_has_approved_it(stage: Stage, shop: ModuleType) -> None:
    agent = load(EXAMPLE / "help_desk.prompty", defer_environment=True)
    with scripted_agent(agent, f"{EXAMPLE}/scripted.py:scripted_reply") as scripted:
        async with create_worker(
            stage.client, task_queue=stage.task_queue, tools=load_tools(str(EXAMPLE / "tools.py"))
        ):
            run = await start_run(stage.client, scripted, {}, task_queue=stage.task_queue)

            async def waits() -> bool:
                return bool((await run.status()).pending_approvals)

            await wait_for(waits)
            [pending] = (await run.status()).pending_approvals
            assert pending.name == "refundOrder"
            assert pending.arguments == {"number": 23, "amount": 49.5, "reason": "The article does not work."}
            assert shop.ORDERS[23]["refunds"] == {}
            await run.approve(pending.call_id, digest=pending.digest, by="a manager")
            result = await run.result()
    [refund] = shop.ORDERS[23]["refunds"].values()
    assert refund == {"id": "R1", "amount": 49.5, "reason": "The article does not work."}
    assert result.output.startswith("Dear Ada, we are sorry. Rule: An article that does not work is refunded in full")
    assert result.usage.input_tokens > 0
    await replay_run(stage.client, run.id)


def test_the_command_of_its_page(shop: ModuleType, address: str, tmp_path: Path) -> None:
    command = [
        *(sys.executable, "-m", "perdure", "run", str(EXAMPLE / "help_desk.prompty")),
        *("--tools", str(EXAMPLE / "tools.py"), "--scripted", f"{EXAMPLE}/scripted.py:scripted_reply"),
        *("--id", "help-desk-command", "--task-queue", "help-desk-command"),
    ]
    environment = {**os.environ, "TEMPORAL_ADDRESS": address, "PERDURE_HOME": str(tmp_path)}
    process = subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )

    def decide() -> bool:
        approve = [sys.executable, "-m", "perdure", "approve", "help-desk-command", "refund"]
        return subprocess.run(approve, env=environment, capture_output=True, timeout=60).returncode == 0

    async def approved() -> bool:
        return await asyncio.to_thread(decide)

    asyncio.run(wait_for(approved, timeout=60, every=0.2))
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr.decode()
    assert stdout.decode().startswith("Dear Ada, we are sorry.")
