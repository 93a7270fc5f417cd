"""The providers that docs/providers.md shows work as they stand there."""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from perdure.activities.heartbeat import Heartbeat
from perdure.activities.model import ask_model
from perdure.client import start_run
from perdure.messages import Message
from perdure.options import RunOptions
from perdure.providers import ModelCallOptions, close_clients
from perdure.testing import (
    InProcessRun,
    RecordedRun,
    ScriptedModel,
    ScriptedReply,
    asks,
    call,
    read_recording,
    says,
)
from perdure.tools.declaration import agent_with_tools

from ..support.recorded_server import Recorded, RecordedServer
from ..support.stage import Stage
from ..support.wire_agents import agent

PAGE = Path(__file__).parents[2] / "docs" / "providers.md"
SECTION = PAGE.read_text(encoding="utf-8").partition("## Another provider")[2]
METADATA, RESEMBLING, WHOLE = (
    re.findall(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)[number]
    for language, number in (("toml", 0), ("python", 0), ("python", 1))
)


def install(folder: Path, module: str, key: str = "acme") -> None:
    """A distribution in `folder` that has the module and the entry point of the page, which may
    have another key.
    """
    [(group, entries)] = tomllib.loads(METADATA.replace("acme", key))["project"][
        "entry-points"
    ].items()
    lines = [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())]
    about = folder / f"{key}_perdure-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {key}-perdure\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("\n".join(lines))
    (folder / f"{key}_perdure.py").write_text(module)


async def ask(url: str) -> str:
    asked = agent(("acme", "chat"), connection={"kind": "key", "endpoint": url, "apiKey": "k"})
    messages = [Message.system("Be brief."), Message.user("Who are you?")]
    reply = await ask_model(asked, messages, RunOptions(llm_timeout=5), Heartbeat())
    return reply.message.text


async def test_a_provider_of_another_package(
    recorded: RecordedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(WHOLE.splitlines()) <= 44
    install(tmp_path, WHOLE)
    monkeypatch.syspath_prepend(tmp_path)
    recorded.answers(Recorded.of_json({"says": "Acme."}))
    assert await ask(recorded.url) == "Acme."
    assert (recorded.last.path, recorded.last.headers["x-api-key"]) == ("/talk", "k")
    turns = [{"from": "system", "says": "Be brief."}, {"from": "user", "says": "Who are you?"}]
    assert recorded.last.body == {"model": "m", "turns": turns}


CALLING = """
import json

from perdure.messages import ToolCall
from perdure.providers.base import offered_functions


class Calling(Acme):
    def to_request(self, agent, messages, *, extra_tools=(), may_call_tools=True):
        request = super().to_request(agent, messages)
        for turn, message in zip(request["turns"], messages, strict=True):
            turn["asks"] = [[call.id, call.name, json.loads(call.arguments)] for call in message.tool_calls]
            turn["answers"] = message.metadata.get("tool_call_id")
        offered = offered_functions(agent, extra_tools) if may_call_tools else []
        return {**request, "can": {each.name: each.parameters for each in offered}}

    def reply(self, agent, response):
        asked = response.get("asks", [])
        calls = [ToolCall(id=id, name=name, arguments=json.dumps(given)) for id, name, given in asked]
        return ModelReply(message=Message.assistant(self.process(agent, response), calls))


def provider(key, api_type):
    return Calling(key)
"""


def lower(text: str) -> str:
    return text.lower()


async def test_its_runs_on_a_server_in_process_and_recorded(
    recorded: RecordedServer, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the provider's own HTTP; nothing of perdure knows its wire."""
    install(tmp_path, WHOLE + CALLING, "calling")
    monkeypatch.syspath_prepend(tmp_path)
    recorded.answers(
        Recorded.of_json({"says": "", "asks": [["c1", "lower", {"text": "ACME"}]]}),
        Recorded.of_json({"says": "Done."}),
    )
    asked = agent_with_tools(
        agent(
            ("calling", "chat"),
            connection={"kind": "key", "endpoint": recorded.url, "apiKey": "${env:ACME_KEY}"},
            instructions="user:\nLower it.",
        ),
        {"lower": lower},
    )
    monkeypatch.setenv("ACME_KEY", "k")
    async with stage.worker([lower]):
        run = await start_run(stage.client, asked, task_queue=stage.task_queue)
        result = await run.result()
    assert [(message.role, message.text) for message in result.messages[1:]] == [
        ("assistant", ""),
        ("tool", "acme"),
        ("assistant", "Done."),
    ]
    assert recorded.last.body["turns"][-1] == {
        "from": "tool",
        "says": "acme",
        "asks": [],
        "answers": "c1",
    }
    assert list(recorded.last.body["can"]) == ["lower"]

    replies = [asks(call("lower", text="ACME")), says("Done.")]
    assert (await InProcessRun(asked, model=replies, tools=[lower]).run()).output == "Done."

    (tmp_path / "run.jsonl").write_text(
        "\n".join([json.dumps(line) async for line in run.export()])
    )
    played = RecordedRun(read_recording(tmp_path / "run.jsonl"))
    assert (await asyncio.to_thread(played)).output == "Done."


async def test_a_subclass_of_a_format() -> None:
    shown: dict[str, Any] = {"__name__": "acme_perdure"}
    exec(RESEMBLING, shown)
    provider = shown["provider"]("acme", "chat")
    with ScriptedModel([ScriptedReply(text="Acme.")]) as model:
        asked = agent(
            connection={"kind": "anonymous", "endpoint": model.openai_endpoint},
            options={"maxOutputTokens": 9},
        )
        request = provider.to_request(asked, [Message.user("Who are you?")])
        assert request["max_tokens"] == 9
        response = await provider.call(asked, request, ModelCallOptions(5))
        assert provider.reply(asked, response).message.text == "Acme."
        await close_clients()
