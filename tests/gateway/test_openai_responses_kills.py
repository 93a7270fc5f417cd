"""Background responses whose gateways are killed (SIGKILL) in the middle of their streams, read by
OpenAI's client.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from pathlib import Path
from typing import Any

import httpx
import openai
from temporalio.client import Client

from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, says

from ..support.command_line import Cli
from ..support.gateway_kills import Ground
from ..support.worker_process import WorkerJob
from ..support.workers import Nursery

AGENT = (
    '---\nname: clerk\nmodel: {{id: m, connection: {{kind: key, endpoint: "{endpoint}"}}}}\n---\n'
)
RESPONSES = 4


def text_of(number: str) -> str:
    return " ".join(f"w{number}.{place}" for place in range(300))


def reply(request: ScriptedRequest) -> ScriptedReply:
    return says(text_of(request.messages[-1].text), chunk_delay=0.03)


class Reader:
    """Reads one response to its end, at one gateway after the other."""

    def __init__(self, ports: list[int], number: str, key: str) -> None:
        self._ports = itertools.cycle(ports[int(number) % 2 :] + ports)
        self._number, self._key = number, key
        self.events: list[Any] = []
        self.cuts = 0
        """How often the stream was cut in the middle."""

    async def read(self) -> None:
        while not self.events or self.events[-1].type not in (
            "response.completed",
            "response.failed",
        ):
            url = f"http://127.0.0.1:{next(self._ports)}/v1"
            async with openai.AsyncOpenAI(
                base_url=url, api_key="any", max_retries=0, timeout=20
            ) as client:
                try:
                    async for event in await self._stream(client):
                        self.events.append(event)
                except (openai.APIError, httpx.TransportError):
                    self.cuts += bool(self.events)
            await asyncio.sleep(0.05)

    async def _stream(self, client: openai.AsyncOpenAI) -> Any:
        if not self.events:
            return await client.responses.create(
                model="clerk",
                input=self._number,
                background=True,
                stream=True,
                extra_headers={"Idempotency-Key": self._key},
            )
        id, after = self.events[0].response.id, self.events[-1].sequence_number
        return await client.responses.retrieve(id, stream=True, starting_after=after)


async def test_a_stream_goes_on_elsewhere_when_its_gateway_is_killed(
    client: Client, cli: Cli, tmp_path: Path
) -> None:
    with ScriptedModel(reply) as model:
        agent = tmp_path / "clerk.prompty"
        agent.write_text(AGENT.format(endpoint=model.openai_endpoint))
        address, queue = client.service_client.config.target_host, f"responses-{uuid.uuid4()}"
        async with Nursery() as nursery:
            job = WorkerJob(address=address, task_queue=queue, folder=str(tmp_path))
            ground = Ground(cli, nursery, job, agent, gateways=2, victims=["gateway"])
            readers = [
                Reader(ground.ports, str(number), f"{queue}-{number}")
                for number in range(RESPONSES)
            ]
            async with ground.killing((0.7, 1.5)), asyncio.timeout(90):
                await asyncio.gather(*(each.read() for each in readers))
            await ground.has_runs(client, RESPONSES)
    for number, reader in enumerate(readers):
        deltas = [each.delta for each in reader.events if each.type == "response.output_text.delta"]
        assert "".join(deltas) == text_of(str(number))
        numbers = [each.sequence_number for each in reader.events]
        assert numbers == sorted(set(numbers))
        assert [each.type for each in reader.events].count("response.completed") == 1
        assert reader.events[-1].response.output_text == text_of(str(number))
    assert ground.kills["gateway"] >= 1
    assert sum(reader.cuts for reader in readers) >= 1
    assert len(model.requests) == RESPONSES
