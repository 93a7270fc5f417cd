"""What others' workers answer need not make sense, and they need not be there: each becomes a tool
result.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.converter import DataConverter, PayloadCodec
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from perdure.errors import RunCancelled

from ..support import foreign_tools as tools
from ..support.foreign_tools import Scripted, answer, started
from ..support.stage import Stage
from ..support.waiting import wait_for


class Sealed(PayloadCodec):
    """Somebody's own encryption, which perdure has no key for."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload(metadata={"encoding": b"binary/sealed"}, data=b"?" * 50) for _ in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)


@activity.defn
async def sealed() -> str:
    return "secret"


@activity.defn
async def sealed_failure() -> str:
    raise ApplicationError("no key", {"why": "sealed"}, type="NoKey", non_retryable=True)


@workflow.defn(name="sealed")
class SealedWorkflow:
    @workflow.run
    async def run(self) -> str:
        return "secret"


@activity.defn
async def odd(name: str) -> RawValue:
    return RawValue(ODD[name])


ODD = {
    "no JSON": Payload(metadata={"encoding": b"json/plain"}, data=b"{"),
    "half a character": Payload(metadata={"encoding": b"json/plain"}, data=b'"a\\ud800b"'),
    "no encoding": Payload(data=b"abc"),
    "deep": Payload(metadata={"encoding": b"json/plain"}, data=b"[" * 5000 + b"]" * 5000),
    "bytes": Payload(metadata={"encoding": b"binary/plain"}, data=b"\x00\xff"),
    "no zstd": Payload(metadata={"encoding": b"binary/zstd"}, data=b"abc"),
    "a megabyte": Payload(
        metadata={"encoding": b"json/plain"}, data=b'"' + b"x" * 1_000_000 + b'"'
    ),
}


@pytest.fixture
async def abroad(client: Client, task_queue: str) -> AsyncIterator[str]:
    """A queue with a worker whose values nobody else can read."""
    queue = f"{task_queue}-abroad"
    converter = replace(DataConverter.default, payload_codec=Sealed())
    own = await Client.connect(client.service_client.config.target_host, data_converter=converter)
    runner = UnsandboxedWorkflowRunner()
    things: Any = {
        "activities": [sealed, sealed_failure],
        "workflows": [SealedWorkflow],
        "workflow_runner": runner,
    }
    async with Worker(own, task_queue=queue, **things):
        yield queue


async def test_values_that_nobody_can_read(stage: Stage, scripted: Scripted, abroad: str) -> None:
    async with stage.worker():
        for tool in (tools.activity("sealed", abroad), tools.workflow("sealed", abroad)):
            told = await answer(stage, scripted, tool)
            assert told.startswith(
                "Error: Tool 'sealed' failed: its result can't be read: its encoding is "
                "'binary/sealed'"
            )
        told = await answer(stage, scripted, tools.activity("sealed_failure", abroad))
        assert told == "Error: Tool 'sealed_failure' failed: NoKey: no key"


async def test_odd_results(
    stage: Stage, scripted: Scripted, client: Client, task_queue: str
) -> None:
    queue = f"{task_queue}-odd"
    tool = tools.activity("odd", queue, "name:string!", arguments="positional")
    own = await Client.connect(client.service_client.config.target_host)
    async with stage.worker(), Worker(own, task_queue=queue, activities=[odd]):
        told = {name: await answer(stage, scripted, tool, name=name) for name in ODD}
    assert told.pop("half a character") in (
        "a\N{REPLACEMENT CHARACTER}b",
        told["no JSON"].replace("1 bytes", "10 bytes"),
    )
    assert told.pop("bytes") == ""
    large = told.pop("a megabyte")
    assert len(large) < 70_000
    assert "bytes left out here" in large
    assert [name for name, text in told.items() if "its result can't be read" not in text] == []


async def test_nobody_polls_the_queue(stage: Stage, scripted: Scripted, task_queue: str) -> None:
    nobody = f"{task_queue}-nobody"
    async with stage.worker():
        told = await answer(
            stage, scripted, tools.activity("charge", nobody, scheduleToStartTimeout="200ms")
        )
        assert told == (
            f"Error: Tool 'charge' failed: no worker of the task queue '{nobody}' took the "
            "activity 'charge' within 0.2 s, so it was not executed"
        )


async def test_a_run_that_waits_for_nobody_can_be_cancelled(
    stage: Stage, scripted: Scripted, client: Client, task_queue: str
) -> None:
    nobody = f"{task_queue}-nobody"
    async with stage.worker():
        run = await started(stage, scripted, tools.activity("charge", nobody))

        async def waits() -> bool:
            description = await client.get_workflow_handle(run.id).describe()
            return any(
                each.activity_type.name == "charge"
                for each in description.raw_description.pending_activities
            )

        await wait_for(waits)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await asyncio.wait_for(run.result(), 5)
