"""What a stranger sends in a signal or an update never stops a run."""

from __future__ import annotations

import asyncio
import uuid

import zstandard
from temporalio.api.common.v1 import Payload, Payloads, WorkflowExecution
from temporalio.api.update.v1 import Input, Meta, Request, WaitPolicy
from temporalio.api.workflowservice.v1 import (
    SignalWorkflowExecutionRequest,
    UpdateWorkflowExecutionRequest,
)
from temporalio.client import Client

from perdure.payloads.converter import ENCODING, ZstdCodec
from perdure.payloads.unpacking import MAX_UNPACKED_BYTES
from perdure.protocol.names import APPROVAL, STEER
from perdure.testing import asks, call, says
from perdure.tools import tool

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage

BLOCK = 1024 * 1024


def compressed(data: bytes) -> Payload:
    return Payload(metadata={"encoding": ENCODING}, data=zstandard.ZstdCompressor().compress(data))


def bomb(size: int, *, tells_size: bool = True) -> Payload:
    """A payload of a few kilobytes that unpacks to `size` bytes."""
    packer = zstandard.ZstdCompressor().compressobj(size=size if tells_size else -1)
    parts = [packer.compress(bytes(BLOCK)) for _ in range(size // BLOCK)]
    return Payload(metadata={"encoding": ENCODING}, data=b"".join([*parts, packer.flush()]))


JUNK = {
    "no zstd": Payload(metadata={"encoding": ENCODING}, data=b"this is not zstd"),
    "empty": Payload(metadata={"encoding": ENCODING}),
    "cut": Payload(metadata={"encoding": ENCODING}, data=compressed(b"x" * 1000).data[:-4]),
    "no payload inside": compressed(b"\xff\xff\xff"),
    "itself inside": compressed(compressed(b"\n").SerializeToString()),
    "bomb": bomb(MAX_UNPACKED_BYTES + BLOCK),
    "bomb of unknown size": bomb(MAX_UNPACKED_BYTES + BLOCK, tells_size=False),
    "unknown encoding": Payload(metadata={"encoding": b"binary/unheard-of"}, data=b"\x00"),
    "no encoding": Payload(data=b"\x00\xff"),
    "broken JSON": Payload(metadata={"encoding": b"json/plain"}, data=b'{"text": '),
    "no UTF-8": Payload(metadata={"encoding": b"json/plain"}, data=b'"\xff\xfe"'),
    "deep JSON": Payload(metadata={"encoding": b"json/plain"}, data=b"[" * 100_000),
}


async def send_signal(client: Client, run_id: str, name: str, *payloads: Payload) -> None:
    """A signal as any program may send it, with a header of the same kind."""
    request = SignalWorkflowExecutionRequest(
        namespace=client.namespace,
        workflow_execution=WorkflowExecution(workflow_id=run_id),
        signal_name=name,
        request_id=str(uuid.uuid4()),
        input=Payloads(payloads=payloads),
    )
    request.header.fields["stranger"].CopyFrom(payloads[0])
    await client.workflow_service.signal_workflow_execution(request, retry=True)


async def send_update(client: Client, run_id: str, name: str, payload: Payload) -> str:
    """An update as any program may send it; returns why it was refused."""
    request = UpdateWorkflowExecutionRequest(
        namespace=client.namespace,
        workflow_execution=WorkflowExecution(workflow_id=run_id),
        wait_policy=WaitPolicy(lifecycle_stage=3),  # type: ignore[arg-type]
        request=Request(
            meta=Meta(update_id=f"junk-{name}-{hash(payload.data)}"),
            input=Input(name=name, args=Payloads(payloads=[payload])),
        ),
    )
    response = await client.workflow_service.update_workflow_execution(request, retry=True)
    return response.outcome.failure.message


async def test_junk_is_dropped_and_the_run_goes_on(stage: Stage, scripted: Scripted) -> None:
    reached, gate = asyncio.Event(), asyncio.Event()

    @tool
    async def wait(text: str = "") -> str:
        """Wait."""
        reached.set()
        await gate.wait()
        return "waited"

    async with stage.worker([wait]):
        run = await stage.start(
            scripted_agent(scripted([asks(call("wait")), says("done")]), ["wait"])
        )
        await reached.wait()
        for junk in JUNK.values():
            for signal in (STEER, APPROVAL, "unheard_of"):
                await send_signal(stage.client, run.id, signal, junk)
            await send_signal(stage.client, run.id, STEER, junk, junk)
            assert await send_update(stage.client, run.id, APPROVAL, junk)
        await run.steer("plain text")
        gate.set()
        async with asyncio.timeout(20):
            result = await run.result()
    assert [message.text for message in result.messages[4:]] == ["plain text", "done"]


async def test_a_value_that_could_not_be_unpacked_again_is_not_packed(stage: Stage) -> None:
    large = Payload(metadata={"encoding": b"binary/plain"}, data=bytes(MAX_UNPACKED_BYTES + 1))
    [payload] = await ZstdCodec().encode([large])
    assert payload.metadata["encoding"] == b"binary/plain"


async def test_many_payloads_together_have_one_bound() -> None:
    half = Payload(metadata={"encoding": b"binary/plain"}, data=bytes(MAX_UNPACKED_BYTES // 2))
    packed = compressed(half.SerializeToString())
    decoded = await ZstdCodec().decode([packed] * 5)
    assert [payload.metadata["encoding"] for payload in decoded] == [
        b"binary/plain",
        *[ENCODING] * 4,
    ]
