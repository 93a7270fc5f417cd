"""A flood that one workflow task cannot read, sent by anybody: it is dropped, and no decision or cancellation is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from temporalio.api.common.v1 import Payload

from perdure.client import get_run
from perdure.errors import ApprovalError, RunCancelled
from perdure.payloads.unpacking import MAX_READ_WEIGHT, reading_weight_of
from perdure.protocol.names import APPROVAL, STEER
from perdure.testing import ScriptedModel, asks, call, says
from perdure.testing.script import Script
from perdure.workflows.received import weight_of_own_part
from perdure.workflows.recording import PIECE_BYTES

from ..runs.test_encryption import APPROVED, approve, failed_tasks
from ..support.agents import scripted_agent
from ..support.stage import Stage
from .test_approvals import asked
from .test_received_junk import send_signal, send_update

Scripted = Callable[[Script], ScriptedModel]
BYTES = 1_880_000
WAITS = [asks(call("approve", "1")), says("done")]


def in_json(data: bytes) -> Payload:
    return Payload(metadata={"encoding": b"json/plain"}, data=data)


def repeated(item: bytes) -> Payload:
    return in_json(b"[" + item * (BYTES // len(item)) + b"1]")


FLOODS = {
    "numbers": [repeated(b"1,")],
    "lists": [repeated(b"[],")],
    "of a fitting form": [in_json(b'{"text":"a","further":' + repeated(b"1,").data + b"}")],
    "two values each": [repeated(b"[],"), in_json(b"1")],
}


async def decide(stage: Stage, id: str) -> None:
    """Approve, and again while no worker answers: on a busy machine, to fetch and weigh a flood takes a while."""
    while True:
        try:
            await get_run(stage.client, id).approve("1")
        except ApprovalError as error:
            if error.kind == "unconfirmed":
                continue
            if error.kind != "ended":
                raise
        return


@pytest.mark.parametrize("junk", FLOODS.values(), ids=FLOODS.keys())
async def test_a_flood_of_signals_hinders_no_decision(
    stage: Stage, scripted: Scripted, junk: list[Payload], caplog: pytest.LogCaptureFixture
) -> None:
    async with stage.worker([approve]):
        run = await stage.start(scripted_agent(scripted(WAITS), [APPROVED]))
        await asked(run)
    for _ in range(8):
        await send_signal(stage.client, run.id, STEER, *junk)
    async with stage.worker([approve]):
        await decide(stage, run.id)
        assert (await run.result()).output == "done"
    assert not await failed_tasks(stage.client.get_workflow_handle(run.id))
    assert "too much to read at once" in caplog.text


async def test_cancel_ends_a_flooded_run(stage: Stage, scripted: Scripted, caplog: pytest.LogCaptureFixture) -> None:
    """Flooded while a worker is there; an update is refused."""
    async with stage.worker([approve]):
        run = await stage.start(scripted_agent(scripted(WAITS), [APPROVED]))
        await asked(run)
        [junk] = FLOODS["lists"]
        await asyncio.gather(*(send_signal(stage.client, run.id, APPROVAL, junk) for _ in range(8)))
        assert "too much to read" in await send_update(stage.client, run.id, APPROVAL, junk)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()
    assert "TMPRL1101" not in caplog.text  # The server may fail a task that closes the run while something comes.


async def test_a_large_text_is_read_whatever_it_consists_of(stage: Stage, scripted: Scripted) -> None:
    model = scripted(WAITS)
    async with stage.worker([approve]):
        run = await stage.start(scripted_agent(model, [APPROVED]))
        await asked(run)
        text = '[[],{"a": "\\"}]' * 40_000
        await run.steer(text)
        await run.approve("1")
        await run.result()
    assert text in [message.text for message in model.requests[-1].messages]


def test_the_parts_of_a_long_turn_are_read_in_one_task() -> None:
    """A turn of many short messages hands them over in pieces, of which a session may get many at once."""
    message = b'{"role":"user","parts":[{"kind":"text","value":"yes"}]},'
    part = in_json(b"[" + message * (PIECE_BYTES // len(message)) + b"1]")
    assert 15 * weight_of_own_part(part, MAX_READ_WEIGHT) <= MAX_READ_WEIGHT
    assert 4 * reading_weight_of(part, 10**9) > MAX_READ_WEIGHT
