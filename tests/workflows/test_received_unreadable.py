"""What anybody may send and no worker can read, or only another one: it is dropped, and stops
nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowQueryFailedError, WorkflowUpdateFailedError
from temporalio.common import RawValue

from perdure.client import get_run
from perdure.errors import RunCancelled
from perdure.payloads.encryption.codec import ENCODING, KEY_CHECK, KEY_ID
from perdure.payloads.encryption.keys import new_key
from perdure.protocol.names import APPROVAL, EVENTS, STEER
from perdure.protocol.run import SteeringMessage
from perdure.testing import asks, call, says

from ..runs.test_encryption import APPROVED, KEY, approve, failed_tasks, with_key
from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage
from ..support.waiting import asked
from .test_received_junk import send_signal, send_update

REFERENCE = b"temporal.api.sdk.v1.ExternalStorageReference"


def encrypted(key_id: bytes, **metadata: bytes) -> Payload:
    return Payload(metadata={"encoding": ENCODING, KEY_ID: key_id, **metadata}, data=bytes(28))


UNREADABLE = {
    "a key that nobody has": encrypted(b"zzz"),
    "another key of a known id": encrypted(b"test", **{KEY_CHECK: b"00000000"}),
    "damaged, of a known id": encrypted(b"test"),
    "stored by a driver that nobody has": Payload(
        metadata={"encoding": b"json/external-storage-reference"},
        data=b'{"driver_name": "nobody", "driver_claim": {"claim_data": {}}}',
    ),
    "a broken reference": Payload(
        metadata={"encoding": b"json/protobuf", "messageType": REFERENCE}, data=b"{"
    ),
    "marked as a reference": Payload(
        metadata={"encoding": b"json/plain", "__temporal_external_storage_reference": b"true"},
        data=b"{}",
    ),
}
WAITS = [asks(call("approve", "1")), says("done")]


@pytest.fixture(params=["clear", "encrypted"])
async def waiting(
    request: pytest.FixtureRequest, client: Client, task_queue: str
) -> AsyncIterator[Stage]:
    """The stage, with a key or without."""
    stage = Stage(with_key(client, *([KEY] if request.param == "encrypted" else [])), task_queue)
    yield stage
    await stage.replay()


async def test_what_nobody_can_read_is_dropped_and_cancel_ends_the_run(
    waiting: Stage, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    async with waiting.worker([approve], max_cached_workflows=0):
        run = await waiting.start(scripted_agent(scripted(WAITS), [APPROVED]))
        await asked(run)
        handle = waiting.client.get_workflow_handle(run.id)
        for sent in UNREADABLE.values():
            for name in (STEER, APPROVAL, "unheard_of"):
                await send_signal(waiting.client, run.id, name, sent)
            assert await send_update(waiting.client, run.id, APPROVAL, sent)
            with pytest.raises(WorkflowQueryFailedError):
                await handle.query(EVENTS, RawValue(sent))
        await run.steer("read")
        await asked(run)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()
    assert not await failed_tasks(handle)
    assert "dropp" in caplog.text


async def test_what_was_dropped_stays_so_where_a_worker_has_the_key(
    stage: Stage, scripted: Scripted, client: Client
) -> None:
    """And what a worker with the key has read is left to such workers."""
    keyed = Stage(with_key(client, KEY), stage.task_queue)
    model = scripted([asks(call("approve", "1")), asks(call("approve", "2")), says("done")])
    run = await stage.start(scripted_agent(model, [APPROVED]))
    handle = keyed.client.get_workflow_handle(run.id)
    async with stage.worker([approve]):
        await asked(run)
        await handle.signal(STEER, SteeringMessage(text="not to be read"))
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await handle.execute_update(APPROVAL, {"call_id": "1", "approved": True})
        assert "with the key 'test'" in str(refused.value.cause)
        await run.steer("first")
        await asked(run)
    async with keyed.worker([approve]):
        await handle.signal(STEER, SteeringMessage(text="second"))
        await handle.execute_update(APPROVAL, {"call_id": "1", "approved": True})
        [pending] = await asked(get_run(keyed.client, run.id))
        assert pending.call_id == "2"
        assert not await failed_tasks(handle)
    async with stage.worker([approve], max_cached_workflows=0), keyed.another_worker([approve]):
        await handle.signal(APPROVAL, {"call_id": "2", "approved": True})
        result = await keyed.client.get_workflow_handle(run.id).result()
    assert result["output"] == "done"
    stage.client = keyed.client  # by which the history is replayed
    said = [message.text for message in model.requests[-1].messages if message.role == "user"]
    assert said[1:] == ["first", "second"]


async def test_a_key_is_changed_while_a_run_waits(
    client: Client, task_queue: str, scripted: Scripted
) -> None:
    """A message with a key that the run has never used is read where it can be."""
    new = new_key("new")
    stage, rotated = (
        Stage(with_key(client, KEY, new), task_queue),
        Stage(with_key(client, new, KEY), task_queue),
    )
    async with stage.worker([approve], max_cached_workflows=0):
        run = await stage.start(scripted_agent(scripted(WAITS), [APPROVED]))
        await asked(run)
        handle = rotated.client.get_workflow_handle(run.id)
        await handle.execute_update(APPROVAL, {"call_id": "1", "approved": True})
        assert (await run.result()).output == "done"
    await stage.replay()
