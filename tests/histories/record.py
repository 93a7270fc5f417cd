"""Records the golden histories anew: `python -m tests.histories.record [NAME …]`.

<<<<<<< HEAD
By hand, and only for a change that running workflows can't survive anyway; see
docs/internals/changing-the-loop.md.
=======
By hand, into the folder of this release line; see docs/changing-the-loop.md. Histories of earlier
lines stay as they are.
>>>>>>> 42f7d2ee (make release builds, tries, lists and signs a release; release notes of 0.1; security policy, upgrade promises, issue templates; golden histories belong to 0.1, and a planted change replays them)
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from temporalio.client import Client, WorkflowHistory

from perdure._version import __version__
from perdure.history.chain import read_links

from ..support.dev_server import server_in_memory
from .golden import FOLDER, Golden, outline
from .scenarios import SCENARIOS, Scene
from .session_scenarios import SESSION_SCENARIOS, histories_of

LINE = FOLDER / ".".join(__version__.split(".")[:2])
"""Where the histories of this release line are."""
SHORT_HISTORY = "limit.historyCount.suggestContinueAsNew=60"


async def main(names: list[str]) -> None:
    LINE.mkdir(exist_ok=True)
    async with server_in_memory(SHORT_HISTORY, identity="golden") as server:
        for name in names or [*SCENARIOS, *SESSION_SCENARIOS]:
            for path in LINE.glob(f"{name}-*.json"):
                path.unlink()
            await record(server.client, name)


async def record(client: Client, name: str) -> None:
    recorded = await _histories(client, name)
    for number, told in enumerate(recorded, 1):
        history = told.to_json_dict()
        _without_this_machine(history)
        golden = Golden(history=history, events=await outline(history))
        (LINE / f"{name}-{number}.json").write_text(
            golden.model_dump_json() + "\n", encoding="utf-8"
        )
    print(f"{name}: {len(recorded)} histories")


async def _histories(client: Client, name: str) -> list[WorkflowHistory]:
    if name in SESSION_SCENARIOS:
        return await histories_of(await SESSION_SCENARIOS[name](client, name))
    run = await SCENARIOS[name](Scene(client, name))
    return [WorkflowHistory(run.id, link.history) async for link in read_links(client, run.id)]


def _without_this_machine(value: Any) -> None:
    """Leave out what only tells where the recording was made."""
    if isinstance(value, dict):
        value.pop("stackTrace", None)
    for child in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        _without_this_machine(child)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
