"""Whoever may start a run does not own the worker: what its owner has not allowed is refused where
it would happen.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from perdure.agents import Agent, with_others
from perdure.client import RunOptions, session
from perdure.errors import RunError
from perdure.prompty.load import load_dict
from perdure.prompty.worker_limits import WorkerLimits, accepts_host
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.openapi_specs import one, tool_of
from ..support.raw_server import raw_server
from ..support.stage import Stage

SAFE = WorkerLimits()


@pytest.mark.parametrize(
    ("header", "hosts", "accepted"),
    [
        ("a.example.com:8080", ["*.example.com"], True),
        ("A.Example.Com", ["*.example.com"], True),
        ("example.com", ["*.example.com"], False),
        ("a.example.com.evil.org", ["*.example.com"], False),
        ("evil.org/a.example.com", ["*.example.com"], False),
        ("localhost/", ["localhost"], False),
        ("localhost:1", ["localhost"], True),
        ("localhost:\uff18\uff10", ["localhost"], False),
        ("\u212aey.example.com", ["*.example.com"], False),
        ("a@localhost", ["localhost"], False),
        ("[::1]:8080", ["[::1]"], True),
        ("", ["localhost"], False),
        ("", ["*"], True),
    ],
)
def test_the_host_of_a_request_is_one_of_those(
    header: str, hosts: list[str], accepted: bool
) -> None:
    assert accepts_host(header, hosts) is accepted


async def why_refused(stage: Stage, agent: Agent, **worker: Any) -> str:
    async with stage.worker(**{"limits": SAFE, **worker}):
        run = await stage.start(agent)
        with pytest.raises(RunError) as caught:
            await run.result()
    assert caught.value.kind == "configuration"
    return str(caught.value)


async def test_a_strangers_command_is_not_started(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    proof = tmp_path / "proof"
    declared = {
        "name": "t",
        "kind": "mcp",
        "options": {"command": "sh", "args": ["-c", f"touch {proof}"]},
    }
    agent = scripted_agent(scripted([says("done")]), [declared])
    text = await why_refused(stage, agent)
    assert "tools[0].options.command: this worker starts no command 'sh'\n" in text
    assert text.endswith("\nperdure worker --allow-commands sh")
    assert not proof.exists()
    async with stage.worker(limits=WorkerLimits(commands=["sh"])):
        run = await stage.start(agent, missing_tool_grace=0)
        with pytest.raises(RunError):
            await run.result()
    assert proof.exists(), "the owner allows it"


async def test_no_variable_goes_to_a_stranger(
    stage: Stage, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "planted-password")
    model = scripted([says("done")])
    agent = scripted_agent(model, api_key="${env:DATABASE_PASSWORD}")
    assert "--allow-env DATABASE_PASSWORD" in await why_refused(stage, agent)
    text = await why_refused(stage, agent, limits=WorkerLimits(env=["DATABASE_PASSWORD"]))
    assert "model.connection.endpoint: this worker does not send its secrets to '127.0.0.1:" in text
    named = {"model": "planted-password"}
    text = await why_refused(
        stage, scripted_agent(model, api_key="${credential:model}"), credentials=named
    )
    assert "this worker does not send its secrets to '127.0.0.1:" in text
    assert not model.requests
    async with stage.worker(limits=WorkerLimits(env=["DATABASE_PASSWORD"], hosts=["127.0.0.1"])):
        assert (await (await stage.start(agent)).result()).output == "done"


async def test_a_child_and_a_turn_have_the_same_limits(stage: Stage, scripted: Scripted) -> None:
    model = scripted([asks(call("helper")), says("done")])
    child = scripted_agent(model, [{"name": "t", "kind": "mcp", "options": {"command": "sh"}}])
    agent = scripted_agent(
        model, [{"name": "helper", "kind": "prompty", "path": "helper.prompty", "mode": "agentic"}]
    )
    agent = with_others(agent, {"helper.prompty": child})
    async with stage.worker(limits=SAFE):
        result = await (await stage.start(agent)).result()
    [told] = tool_texts(result.messages)
    assert "this worker starts no command 'sh'" in told
    async with stage.worker(limits=SAFE):
        options = RunOptions(on_failure="fail")
        talk = session(
            stage.client,
            child,
            f"talk-{uuid.uuid4()}",
            task_queue=stage.task_queue,
            options=options,
        )
        turn = await talk.send("hello")
        with pytest.raises(RunError, match="starts no command"):
            await turn.result()


async def test_a_specification_leads_no_key_away(stage: Stage, scripted: Scripted) -> None:
    """Not even one that its owner has given an id."""
    schemes = {
        "components": {"securitySchemes": {"k": {"type": "http", "scheme": "bearer"}}},
        "security": [{"k": []}],
    }
    async with raw_server() as evil:
        tool = tool_of(one("/", servers=[{"url": evil.url}], **schemes))
        declared = {
            **json.loads(tool.model_dump_json(by_alias=True, exclude_none=True)),
            "connection": {"kind": "key", "apiKey": "${credential:crm}"},
        }
        agent = load_dict({"name": "a", "model": {"id": "m"}, "tools": [declared]})
        agent.model = scripted_agent(scripted([asks(call("call")), says("done")])).model
        given = {"credentials": {"crm": "planted-key"}}
        async with stage.worker(limits=SAFE, **given):
            run = await stage.start(agent, missing_tool_grace=0)
            with pytest.raises(
                RunError, match="this worker does not send its secrets to '127.0.0.1:"
            ):
                await run.result()
        assert not evil.requests
        async with stage.worker(limits=WorkerLimits(hosts=["127.0.0.1"]), **given):
            await (await stage.start(agent)).result()
        assert "Bearer planted-key" in evil.requests[0]
