"""The providers that docs/reference/providers.md shows work as they stand there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from perdure.activities.heartbeat import Heartbeat
from perdure.activities.model import ask_model
from perdure.agents import Agent
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.options import RunOptions
from perdure.providers import ModelCallOptions, close_clients
from perdure.testing import (
    ScriptedModel,
    ScriptedReply,
)

from ..support.documents import ROOT
from ..support.recorded_server import Recorded, RecordedServer
from ..support.stage import Stage
from ..support.wire_agents import agent

PAGE = ROOT / "docs/reference/providers.md"
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


def acme(url: str) -> Agent:
    connection = {"kind": "key", "endpoint": url, "apiKey": "${env:ACME_KEY}"}
    return agent(("acme", "chat"), connection=connection, name="acme")


async def ask(url: str) -> str:
    asked = agent(("acme", "chat"), connection={"kind": "key", "endpoint": url, "apiKey": "k"})
    messages = [Message.system("Be brief."), Message.user("Who are you?")]
    reply = await ask_model(asked, messages, RunOptions(llm_timeout=5), Heartbeat())
    return reply.message.text


async def test_a_provider_of_another_package(
    recorded: RecordedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: Stage
) -> None:
    assert len(WHOLE.splitlines()) <= 44
    install(tmp_path, WHOLE)
    monkeypatch.syspath_prepend(tmp_path)
    recorded.answers(Recorded.of_json({"says": "Acme."}))
    assert await ask(recorded.url) == "Acme."
    assert (recorded.last.path, recorded.last.headers["x-api-key"]) == ("/talk", "k")
    turns = [{"from": "system", "says": "Be brief."}, {"from": "user", "says": "Who are you?"}]
    assert recorded.last.body == {"model": "m", "turns": turns}
    monkeypatch.setenv("ACME_KEY", "of the worker")
    async with stage.worker():
        run = await stage.start(acme(recorded.url))
        assert (await run.result()).output == "Acme."
    assert recorded.last.headers["x-api-key"] == "of the worker"


async def test_a_subclass_of_a_format() -> None:
    shown: JsonObject = {"__name__": "acme_perdure"}
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
