"""Encrypted runs: nothing that anybody said is in what the server has, and who lacks the key is
told so.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import zstandard
from google.protobuf.message import Message as Proto
from temporalio.api.workflowservice.v1 import (
    GetWorkflowExecutionHistoryRequest,
    ListWorkflowExecutionsRequest,
)
from temporalio.client import Client
from temporalio.common import RawValue

from perdure import run_input
from perdure.agents import Agent
from perdure.client import get_run, start_run
from perdure.errors import RunCancelled, RunError
from perdure.messages import Message
from perdure.payloads.converter import data_converter
from perdure.payloads.encryption import Encryption, EncryptionError
from perdure.payloads.encryption.keys import new_key
from perdure.protocol.names import STEER, WORKFLOW
from perdure.testing import asks, call, says
from perdure.tools import ToolContext, tool

from ..support.agents import Scripted, scripted_agent
from ..support.families import calls, family_script, write_agent
from ..support.shop_codec import ShopCodec
from ..support.stage import Stage
from ..support.waiting import asked, wait_for

WORD = "unspeakable"
KEY = new_key("test")
APPROVED = {
    "name": "approve",
    "kind": "function",
    "parameters": [{"name": "text", "kind": "string"}],
}


class Beating:
    """What the server has of the last heartbeat."""

    client: Client
    heard: list[str]


@tool(needs_approval=True)
def approve(text: str = "") -> str:
    """An approved tool."""
    return f"approved {WORD}"


@tool
async def work(context: ToolContext, text: str = "") -> str:
    """Beats, and answers when the server has heard it."""
    context.heartbeat(f"heartbeat {WORD}")
    handle = Beating.client.get_workflow_handle(context.run_id)

    async def heard() -> list[str]:
        pending = (await handle.describe()).raw_description.pending_activities
        return [text for each in pending for text in texts_in(each.heartbeat_details)]

    Beating.heard = await wait_for(heard)
    return f"{WORD} {os.environ.get('SHOP_API_KEY')} " * 500


@tool
def fail(text: str = "") -> str:
    """Fails."""
    raise ValueError(f"failed {WORD}")


@tool(idempotent=False)
def echo(text: str = "") -> str:
    """Echoes."""
    return f"echoed {text}"


def with_key(client: Client, *keys: str, required: bool = False) -> Client:
    settings = client.config(active_config=True)
    encryption = Encryption.parse(",".join(keys), required=required) if keys else None
    settings["data_converter"] = data_converter(encryption=encryption)
    return Client(**settings)


@pytest.fixture
async def sealed(client: Client, task_queue: str) -> AsyncIterator[Stage]:
    """The stage, with a key."""
    stage = Stage(with_key(client, KEY), task_queue)
    yield stage
    await stage.replay()


async def test_nothing_said_is_in_what_the_server_has(
    sealed: Stage, scripted: Scripted, tmp_path: Path, client: Client
) -> None:
    assert WORD not in " ".join(
        [found async for found in texts_of(client, await everything(sealed, scripted, tmp_path))]
    )


async def test_the_same_of_a_plain_run_is_found(
    stage: Stage, scripted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the search looks everywhere; and there is no secret in it."""
    monkeypatch.setenv("SHOP_API_KEY", "a-very-secret-value-of-mine")
    ids = await everything(stage, scripted, tmp_path)
    found = " ".join([found async for found in texts_of(stage.client, ids)])
    assert f"heartbeat {WORD}" in " ".join(Beating.heard)
    assert "${env:SHOP_API_KEY}" in found
    assert "a-very-secret-value-of-mine" not in found
    kinds = (
        "question",
        "argument",
        "failed",
        "steered",
        "answer",
        "reason",
        "memo",
        "child says",
        "why not",
        "title",
    )
    assert [kind for kind in kinds if f"{kind} {WORD}" not in found] == []


async def test_a_worker_without_the_key_leaves_the_run_to_one_that_has_it(
    sealed: Stage, scripted: Scripted, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    run = await sealed.start(scripted_agent(scripted([says("done")])))
    handle = client.get_workflow_handle(run.id)
    async with Stage(client, sealed.task_queue).worker(max_cached_workflows=0):
        await wait_for(lambda: failed_tasks(handle))
        with pytest.raises(
            EncryptionError, match="with the key 'test', and this process has no keys"
        ):
            await get_run(client, run.id).messages()
    async with sealed.worker():
        assert (await run.result()).output == "done"
    with pytest.raises(EncryptionError):
        await get_run(client, run.id).result()
    said = [record for record in caplog.records if "'test'" in record.getMessage()]
    assert [record.levelname for record in said] == ["ERROR"], caplog.text
    assert "is left to a worker that can read it" in said[0].getMessage()
    assert not [record for record in caplog.records if record.exc_info]


async def test_an_encrypted_run_is_exported_and_forked_where_the_key_is(
    sealed: Stage, scripted: Scripted, client: Client
) -> None:
    model = scripted([says(f"answer {WORD}")])
    async with sealed.worker():
        run = await sealed.start(scripted_agent(model))
        await run.result()
        assert WORD in str([line async for line in run.export()])
        with pytest.raises(EncryptionError):
            [line async for line in get_run(client, run.id).export()]
        with pytest.raises(EncryptionError):
            await get_run(client, run.id).fork(1)
        fork = await run.fork(1)
        sealed.runs.append(fork)
        assert (await fork.result()).output == f"answer {WORD}"
    said = " ".join([found async for found in texts_of(client, [run.id, fork.id])])
    assert WORD not in said


async def test_a_worker_without_the_shops_codec_harms_nothing(
    stage: Stage, scripted: Scripted, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    settings = client.config(active_config=True)
    settings["data_converter"] = data_converter(codec=ShopCodec())
    shop, stage.client = Stage(client, stage.task_queue), Client(**settings)
    run = await stage.start(
        scripted_agent(scripted([asks(call("echo", "1", text=WORD)), says("done")]), ["echo"])
    )
    handle = client.get_workflow_handle(run.id)
    async with shop.another_worker([echo]):
        await wait_for(lambda: failed_tasks(handle))
        async with stage.worker([echo], disable_eager_activity_execution=True):
            result = await run.result()
    assert [message.text for message in result.messages[2:]] == ["", f"echoed {WORD}", "done"]
    said = [
        record.getMessage()
        for record in caplog.records
        if "is left to a worker" in record.getMessage()
    ]
    assert (
        "Unknown payload encoding binary/shop: name the codec that wrote it with --codec" in said[0]
    )
    with pytest.raises(EncryptionError, match="--codec"):
        await get_run(client, run.id).result()


async def test_a_changed_value_ends_the_run(sealed: Stage, client: Client) -> None:
    input = run_input(Agent(name="tested"), messages=[Message.user("hi")])
    [payload] = await sealed.client.data_converter.encode([input])
    payload.data = payload.data[:-1] + bytes([payload.data[-1] ^ 1])
    id = f"{sealed.task_queue}-changed"
    await client.start_workflow(WORKFLOW, RawValue(payload), id=id, task_queue=sealed.task_queue)
    async with sealed.worker():
        with pytest.raises(RunError, match="changed or damaged") as raised:
            await get_run(sealed.client, id).result()
    assert raised.value.kind == "encryption"


async def test_clear_text_is_refused_where_encryption_is_required(
    sealed: Stage, scripted: Scripted, client: Client
) -> None:
    strict = Stage(with_key(client, KEY, required=True), sealed.task_queue)
    async with strict.worker([approve]):
        run = await strict.start(
            scripted_agent(scripted([asks(call("approve", "1")), says("done")]), [APPROVED])
        )
        await asked(run)
        await client.get_workflow_handle(run.id).signal(STEER, "in clear text")
        await run.approve("1")
        assert [message.role for message in (await run.result()).messages[2:]] == [
            "assistant",
            "tool",
            "assistant",
        ]
        clear = await Stage(client, sealed.task_queue).start(
            scripted_agent(scripted([says("never")]))
        )
        with pytest.raises(RunError, match="A value is not encrypted") as raised:
            await get_run(sealed.client, clear.id).result()
    assert raised.value.kind == "encryption"


async def everything(stage: Stage, scripted: Scripted, folder: Path) -> list[str]:
    """Runs in which whatever may be said is said; their ids."""
    child = scripted(family_script({"child": [says(f"child says {WORD}")]}))
    write_agent(folder, "child.prompty", child, prompt=f"system:\nsystem {WORD}")
    parent = scripted(
        [
            asks(
                call("work", "1", text=f"argument {WORD}"),
                call("fail", "2", text=WORD),
                text=f"thought {WORD}",
            ),
            asks(call("approve", "3", text=WORD), call("child", "4")),
            says(f"answer {WORD}"),
        ]
    )
    agent = scripted_agent(
        parent, ["work", "fail", APPROVED, calls("child.prompty")], description=f"title {WORD}"
    )
    client = Beating.client = stage.client
    queue = stage.task_queue
    async with stage.worker([work, fail, approve], prompt_root=folder):
        run = await start_run(
            client, agent, messages=[Message.user(f"question {WORD}")], task_queue=queue, id=f"{queue}-run",
            memo={"note": f"memo {WORD}"},
        )  # fmt: skip
        stage.runs.append(run)
        [pending] = await asked(run)
        await run.steer(f"steered {WORD}", by=f"somebody {WORD}")
        await run.approve(
            pending.call_id, by=f"somebody {WORD}", arguments={"text": f"edited {WORD}"}
        )
        result = await run.result()
        assert WORD in str(result.output)
        refused = await stage.start(
            scripted_agent(scripted([]), description=f"title {WORD}"), id=f"{queue}-failed"
        )
        with suppress(RunError):
            await refused.result()
        waiting = await stage.start(
            scripted_agent(scripted([asks(call("approve", "5"))]), [APPROVED]), id=f"{queue}-c"
        )
        await asked(waiting)
        await waiting.deny("5", f"why not {WORD}")
        again = await stage.start(
            scripted_agent(scripted([asks(call("approve", "6"))]), [APPROVED]), id=f"{queue}-d"
        )
        await asked(again)
        await again.cancel(f"reason {WORD}")
        with pytest.raises(RunCancelled, match=f"reason {WORD}"):
            await again.result()
        with suppress(RunError):
            await waiting.result()
    children = [
        event.data["run_id"] for event in await run.events() if event.type == "child_started"
    ]
    assert len(children) == 1
    return [run.id, refused.id, waiting.id, again.id, *children]


async def texts_of(client: Client, ids: list[str]) -> AsyncIterator[str]:
    """Every text in the histories of the runs, and in what lists and describes them; unpacked as
    far as it goes.
    """
    for id in ids:
        token = b""
        while True:
            request = GetWorkflowExecutionHistoryRequest(
                namespace=client.namespace, next_page_token=token
            )
            request.execution.workflow_id = id
            response = await client.workflow_service.get_workflow_execution_history(
                request, retry=True
            )
            for text in texts_in(response):
                yield text
            if not (token := response.next_page_token):
                break
        described = await client.get_workflow_handle(id).describe()
        for text in texts_in(described.raw_description):
            yield text
        query = f"WorkflowId = '{id}'"
        listing = ListWorkflowExecutionsRequest(namespace=client.namespace, query=query)
        for text in texts_in(
            await client.workflow_service.list_workflow_executions(listing, retry=True)
        ):
            yield text


def texts_in(message: Any) -> Iterator[str]:
    """The texts of a message, and of what is compressed in it."""
    if isinstance(message, str):
        yield message
    elif isinstance(message, bytes):
        if message.startswith(b"\x28\xb5\x2f\xfd"):
            message = zstandard.ZstdDecompressor().decompress(message)
        yield message.decode(errors="replace")
    elif isinstance(message, Proto):
        for _, value in message.ListFields():
            yield from texts_in(value)
    elif hasattr(message, "items"):
        for key, value in message.items():
            yield from texts_in(key)
            yield from texts_in(value)
    elif hasattr(message, "__len__"):
        for value in message:
            yield from texts_in(value)


async def failed_tasks(handle: Any) -> bool:
    return any(
        [
            event.HasField("workflow_task_failed_event_attributes")
            async for event in handle.fetch_history_events()
        ]
    )
