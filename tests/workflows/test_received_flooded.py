"""A flood that one workflow task cannot read, sent by anybody: it is dropped, and no decision or
cancellation is.
"""

from __future__ import annotations

import asyncio
import json

import pytest
from temporalio.api.common.v1 import Payload

from perdure.client import get_run, session
from perdure.errors import ApprovalError, RunCancelled
from perdure.json_types import JsonObject
from perdure.payloads.unpacking import MAX_READ_WEIGHT, reading_weight_of
from perdure.protocol.names import APPROVAL, HAND_OVER, NOTE, SEND, STEER
from perdure.testing import asks, call, says

from ..runs.test_encryption import APPROVED, approve, failed_tasks
from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage
from ..support.waiting import asked
from .test_received_junk import send_signal, send_update

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


def _appended(message: JsonObject, count: int) -> JsonObject:
    operation = {"op": "append", "messages": [message] * count}
    return {"version": 1, "base": 0, "digest": "", "operations": [operation]}


async def decide(stage: Stage, id: str) -> None:
    """Approve, and again while no worker answers: on a busy machine, to fetch and weigh a flood
    takes a while.
    """
    while True:
        try:
            await get_run(stage.client, id).approve("1")
        except ApprovalError as error:
            if error.kind == "unconfirmed":
                continue
            if error.kind != "ended":
                raise
        return


async def test_a_flood_of_signals_hinders_no_decision(
    stage: Stage, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage.worker([approve]):
        run = await stage.start(scripted_agent(scripted(WAITS), [APPROVED]))
        await asked(run)
    for junk in 2 * list(FLOODS.values()):
        await send_signal(stage.client, run.id, STEER, *junk)
    async with stage.worker([approve]):
        await decide(stage, run.id)
        assert (await run.result()).output == "done"
    assert not await failed_tasks(stage.client.get_workflow_handle(run.id))
    assert "too much to read at once" in caplog.text


async def test_cancel_ends_a_flooded_run(
    stage: Stage, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    """Flooded while a worker is there; an update is refused."""
    async with stage.worker([approve]):
        run = await stage.start(scripted_agent(scripted(WAITS), [APPROVED]))
        await asked(run)
        [junk] = FLOODS["lists"]
        await asyncio.gather(*(send_signal(stage.client, run.id, APPROVAL, junk) for _ in range(8)))
        assert "too many parts" in await send_update(stage.client, run.id, APPROVAL, junk)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()
    assert (
        "TMPRL1101" not in caplog.text
    )  # The server may fail a task that closes the run while something comes.


async def test_a_large_text_is_read_whatever_it_consists_of(
    stage: Stage, scripted: Scripted
) -> None:
    model = scripted(WAITS)
    async with stage.worker([approve]):
        run = await stage.start(scripted_agent(model, [APPROVED]))
        await asked(run)
        text = '[[],{"a": "\\"}]' * 40_000
        await run.steer(text)
        await run.approve("1")
        await run.result()
    assert text in [message.text for message in model.requests[-1].messages]


@pytest.mark.parametrize("text", ['"', "\\", "\n", "[", ","])
def test_a_text_weighs_about_what_it_takes(text: str) -> None:
    payload = in_json(json.dumps({"text": text * 1_000_000}).encode())
    assert reading_weight_of(payload, MAX_READ_WEIGHT) < 2_001_000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (
            SEND,
            {"text": "a", "id": "1", "setup": {"agent": {"name": "a"}, "messages": [{}] * 160_000}},
        ),
        (HAND_OVER, {"turn": 2, "reference": _appended({"role": "user"}, 90_000)}),
    ],
    ids=["messages", "parts"],
)
async def test_what_takes_long_to_check_hinders_no_session(
    stage: Stage,
    scripted: Scripted,
    name: str,
    value: JsonObject,
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = scripted_agent(scripted(lambda request: says("Read.")))
    talk = session(
        stage.client, agent, f"{stage.task_queue}-talk", task_queue=stage.task_queue, patience=30
    )
    junk = in_json(json.dumps(value, separators=(",", ":")).encode())
    async with stage.worker():
        await (await talk.send("Read this.")).result()
        if name == SEND:
            assert "too many parts" in await send_update(stage.client, talk.id, name, junk)
        else:
            await send_signal(stage.client, talk.id, name, junk)
        assert (await (await talk.send("And this.")).result()).output == "Read."
    assert "TMPRL1101" not in caplog.text
    assert not await failed_tasks(stage.client.get_workflow_handle(talk.id))


async def test_a_session_reads_messages_after_what_strangers_send(
    stage: Stage, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    """A message that is sent meanwhile is refused for now, and sent again by its client."""
    agent = scripted_agent(scripted(lambda request: says("Read.")))
    talk = session(
        stage.client, agent, f"{stage.task_queue}-talk", task_queue=stage.task_queue, patience=60
    )
    async with stage.worker():
        await (await talk.send("Read these.")).result()
    for name, flood in 4 * [(HAND_OVER, "lists"), (NOTE, "numbers")]:
        await send_signal(stage.client, talk.id, name, *FLOODS[flood])
    sending = asyncio.create_task(talk.send('"' * 700_000))
    async with stage.worker():
        assert (await (await sending).result()).output == "Read."
        texts = [message.text[:2] for message in await talk.messages() if message.role == "user"]
        assert texts == ["Re", '""']
    assert "TMPRL1101" not in caplog.text
    assert not await failed_tasks(stage.client.get_workflow_handle(talk.id))
