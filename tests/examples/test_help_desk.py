"""The help desk: four kinds of tools in one run, with a refund that a person approves."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest
from temporalio.client import Client

from perdure.cli.agent_file import scripted_agent
from perdure.client import get_run, start_run
from perdure.errors import RunNotFound
from perdure.prompty.load import load
from perdure.tools import clear_tools
from perdure.tools.handlers import load_tools
from perdure.worker import create_worker

from ..support.command_line import Cli
from ..support.documents import ROOT
from ..support.stage import Stage, replay_runs
from ..support.waiting import asked, wait_for

EXAMPLE = ROOT / "examples" / "help_desk"


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    specification = importlib.util.spec_from_file_location(
        "shop_service", EXAMPLE / "shop_service.py"
    )
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    server = module.serve(0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("SHOP_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv(
        "PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    )
    monkeypatch.chdir(ROOT)
    yield module
    server.shutdown()
    server.server_close()
    clear_tools()


async def test_the_refund_is_made_once_a_person_has_approved_it(
    stage: Stage, shop: ModuleType
) -> None:
    agent = load(EXAMPLE / "help_desk.prompty", defer_environment=True)
    with scripted_agent(agent, f"{EXAMPLE}/scripted.py:scripted_reply") as scripted:
        async with create_worker(
            stage.client, task_queue=stage.task_queue, tools=load_tools(str(EXAMPLE / "tools.py"))
        ):
            run = await start_run(stage.client, scripted, {}, task_queue=stage.task_queue)

            await asked(run)
            [pending] = (await run.status()).pending_approvals
            assert pending.name == "refundOrder"
            assert pending.arguments == {
                "number": 23,
                "amount": 49.5,
                "reason": "The article does not work.",
            }
            assert shop.ORDERS[23]["refunds"] == {}
            await run.approve(pending.call_id, digest=pending.digest, by="a manager")
            result = await run.result()
    [refund] = shop.ORDERS[23]["refunds"].values()
    assert refund == {"id": "R1", "amount": 49.5, "reason": "The article does not work."}
    assert result.output.startswith(
        "Dear Ada, we are sorry. Rule: An article that does not work is refunded in full"
    )
    assert result.usage.input_tokens > 0
    await replay_runs(stage.client, run.id)


async def test_the_command_of_its_page(shop: ModuleType, cli: Cli, client: Client) -> None:
    with_shop = Cli(
        {**cli.environment, "SHOP_URL": os.environ["SHOP_URL"], "PATH": os.environ["PATH"]},
        ROOT,
    )
    command = await with_shop.start(
        *("run", str(EXAMPLE / "help_desk.prompty")),
        *(
            "--tools",
            str(EXAMPLE / "tools.py"),
            "--scripted",
            f"{EXAMPLE}/scripted.py:scripted_reply",
        ),
        *("--id", "help-desk-command", "--task-queue", "help-desk-command"),
    )

    async def waits() -> bool:
        assert command.process.returncode is None, (await command.finish()).stderr
        with suppress(RunNotFound):
            return bool((await get_run(client, "help-desk-command").status()).pending_approvals)
        return False

    await wait_for(waits, timeout=100)
    assert (await cli("approve", "help-desk-command", "refund")).code == 0
    done = await command.finish()
    assert done.code == 0, done.stderr
    assert done.stdout.startswith("Dear Ada, we are sorry.")
    await with_shop.close()
