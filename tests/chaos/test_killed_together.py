"""SIGKILL to several processes at once: a gateway with its worker, a server with its worker."""

from __future__ import annotations

import uuid
from functools import partial
from pathlib import Path

import httpx2
import pytest
from temporalio.client import Client

from perdure.client import get_run, session
from perdure.json_types import JsonObject
from perdure.testing import ScriptedReply, ScriptedRequest, asks, call, says

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.command_line import Cli
from ..support.commands import ForkedCommand
from ..support.dev_server import DevServer, free_port
from ..support.families import write_agent
from ..support.receiver import SECRET, receiving
from ..support.waiting import asked, wait_until
from ..support.worker_process import WorkerJob
from ..support.workers import Nursery, count, read_diary

TURNS = 3


def tool(name: str, **policy: str) -> JsonObject:
    return {"name": name, "kind": "function", "parameters": [], "perdure": policy}


@pytest.mark.timeout(300)
async def test_gateway_and_worker_around_an_approval_a_webhook_and_a_completion(
    client: Client,
    cli: Cli,
    nursery: Nursery,
    scripted: Scripted,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    id, port = f"together-{uuid.uuid4()}", free_port()
    secrets = {
        "PERDURE_WEBHOOK_SECRET": SECRET,
        "PERDURE_CALL_KEY": "a key for tests, of 32 characters",
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    commands = Cli({**cli.environment, **secrets})
    folder = tmp_path / id
    folder.mkdir()
    (folder / "held-call_1").touch()
    script = [asks(call("step", "call_1")), asks(call("later", "call_2")), says("Done.")]
    tools = [tool("step", approval="always"), tool("later")]
    agent = write_agent(tmp_path, "clerk.prompty", scripted(script), tools=tools)
    address = client.service_client.config.target_host
    job = WorkerJob(address=address, task_queue=id, folder=str(tmp_path))
    url = f"http://127.0.0.1:{port}/perdure"

    async with receiving() as receiver, httpx2.AsyncClient(base_url=url, timeout=60) as http:
        options = ("--port", str(port), "--task-queue", id, "--webhook", receiver.url)

        async def begin() -> list[ForkedCommand]:
            gateway = await commands.start("serve", str(agent), *options)
            await gateway.says("Gateway: ")
            assert isinstance(gateway.process, ForkedCommand)
            return [gateway.process, await nursery.start(job)]  # type: ignore[list-item]

        async def kill_both() -> None:
            for process in both:
                process.kill()
            for process in both:
                await process.wait()

        def notices(kind: str) -> set[str]:
            return {notice for notice, body in receiver.taken if body["type"] == kind}

        both = await begin()
        assert (await http.post("/runs", json={"agent": "clerk", "id": id})).status_code == 201
        run = get_run(client, id)
        (pending,) = await asked(run)
        await kill_both()
        both = await begin()
        await wait_until(lambda: notices("run.waiting"))
        decision = {"callId": "call_1", "digest": pending.digest}
        assert (await http.post(f"/runs/{id}/approve", json=decision)).is_success
        await wait_until(lambda: count(folder, "start"))
        await kill_both()
        (folder / "held-call_1").unlink()
        both = await begin()
        assert (await http.post(f"/runs/{id}/approve", json=decision)).is_success
        await wait_until(lambda: [e for e in read_diary(folder) if e["call"] == "call_2"])
        await kill_both()
        both = await begin()
        token = next(each["event"] for each in read_diary(folder) if each["call"] == "call_2")
        finished = {"result": "delivered"}
        assert (await http.post(f"/calls/{token}", json=finished)).is_success
        await kill_both()
        both = await begin()
        assert (await http.post(f"/calls/{token}", json=finished)).is_success
        assert (await run.result()).output == "Done."
        await wait_until(lambda: notices("run.done"))
        await kill_both()
    await commands.close()
    assert tool_texts(await run.messages()) == ["step  done", "delivered"]
    assert count(folder, "end") == {"call_1": 1}
    assert (len(notices("run.waiting")), len(notices("run.done"))) == (1, 1)


def in_turns(request: ScriptedRequest) -> ScriptedReply:
    """Each turn takes a step, and counts what people have said."""
    said = [message.text for message in request.messages if message.role == "user"]
    if request.messages[-1].role == "tool":
        return says(", ".join(said))
    return asks(call("step", f"call_{len(said)}"))


@pytest.mark.timeout(300)
async def test_server_and_worker_in_each_turn_of_a_session(
    nursery: Nursery, scripted: Scripted, tmp_path: Path
) -> None:
    id, agent = f"session-{uuid.uuid4()}", scripted_agent(scripted(in_turns), ["step"])
    async with DevServer(tmp_path / "server.db") as server:
        job = WorkerJob(address=server.address, task_queue=id, folder=str(tmp_path))
        worker = await nursery.start(job)
        talk = session(server.client, agent, id, task_queue=id)
        outputs = []
        for number in range(1, TURNS + 1):
            folder = tmp_path / f"{id}/{number}"
            folder.mkdir(parents=True)
            held = folder / f"held-call_{number}"
            held.touch()
            turn = await talk.send(f"message {number}")
            await wait_until(partial(count, folder, "start"))
            worker.kill()
            await server.kill()
            held.unlink()
            await server.start()
            worker = await nursery.start(job)
            outputs.append((await turn.result()).output)
            assert count(folder, "end") == {f"call_{number}": 1}
        said = [f"message {number}" for number in range(1, TURNS + 1)]
        assert outputs == [", ".join(said[:number]) for number in range(1, TURNS + 1)]
        kept = await talk.messages()
        assert [each.text for each in kept if each.role == "user"] == said
        await talk.close()
