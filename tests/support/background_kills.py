"""Runs whose model answers in the background, while their workers are killed: what readers saw,
what was paid.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from temporalio.client import Client

from perdure.client import RunHandle, start_run
from perdure.options import RunOptions
from perdure.protocol.outcome import RunResult

from .agents import QUESTION
from .background_responses import INPUT_TOKENS, BackgroundServer
from .effects_once import Crowd
from .stage import replay_runs
from .waiting import wait_for
from .workers import Nursery


async def is_recorded(client: Client, id: str) -> bool:
    """Whether Temporal's server has an id of the run's response."""
    description = await client.get_workflow_handle(id).describe()
    return any(
        "resp_" in str(each.heartbeat_details)
        for each in description.raw_description.pending_activities
    )


@dataclass
class Heard:
    """What a reader of one run has been told so far, and at the end what the run gave."""

    text: str = ""
    resets: int = 0
    result: RunResult = field(init=False)

    async def follow(self, run: RunHandle) -> Heard:
        """Follow the run to its end, as somebody who watches."""
        async for event in run.stream():
            if event.type == "token":
                self.text += event.data["token"]
            elif event.type == "text_reset":
                self.text, self.resets = "", self.resets + 1
        self.result = await run.result()
        return self


@dataclass
class BackgroundKills:
    """What became of all runs."""

    heard: list[Heard]
    kills: int
    responses: int
    """How many the provider has made."""
    paid: int
    """Output tokens that the provider has counted."""

    @property
    def lost_attempts(self) -> int:
        """Attempts that runs say were lost after they had asked the model."""
        tokens = sum(each.result.usage.lost_tokens for each in self.heard)
        return round(tokens / INPUT_TOKENS)


async def play(
    client: Client,
    nursery: Nursery,
    folder: Path,
    *,
    runs: int,
    kills: int,
    workers: int,
    pauses: tuple[float, float],
    seconds: float,
) -> BackgroundKills:
    """Kill workers in the middle of streamed responses that take so many seconds; fails where a
    text is not whole.
    """
    queue = f"background-{uuid.uuid4()}"
    crowd = Crowd(client, nursery, folder, client.service_client.config.target_host, queue)
    with BackgroundServer(words=int(seconds / 0.1), pause=0.1) as server:
        first = await crowd.worker()
        handles = [
            await start_run(
                client,
                server.agent(),
                messages=list(QUESTION),
                task_queue=queue,
                id=f"{queue}-{number}",
                options=RunOptions(stream=True),
            )
            for number in range(runs)
        ]
        readers = asyncio.gather(*(Heard().follow(handle) for handle in handles))
        for handle in handles:
            await wait_for(partial(is_recorded, client, handle.id))
        first.kill()
        async with crowd.killing(workers, pauses, kills - 1) as killed:
            heard = await readers
        await replay_runs(client, *(handle.id for handle in handles))
        texts = {made.text for made in server.made}
        assert all(each.text == each.result.output and each.text in texts for each in heard)
        return BackgroundKills(heard, 1 + len(killed), len(server.made), server.paid)
