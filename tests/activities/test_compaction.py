"""The model that summarises what is dropped may be another provider's than the agent's (§13.3)."""

from __future__ import annotations

from pathlib import Path

import pytest

import perdure
from perdure.messages import Message
from perdure.testing import ScriptedModel, says

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage

LONG = [Message.user("x" * 400) for _ in range(8)]
SHORTER = """---
name: shorter
model:
  id: short-model
  provider: anthropic
  apiType: chat
  connection:
    kind: key
    endpoint: ${env:TEST_SHORT_ENDPOINT}
    apiKey: ${env:TEST_SHORT_KEY}
inputs:
  conversation: {kind: string, required: true}
---
system:
You summarise.

user:
{{conversation}}
"""


@pytest.fixture
def summarist(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> ScriptedModel:
    model = scripted([says("They said x.")])
    monkeypatch.setenv("TEST_SHORT_ENDPOINT", model.anthropic_endpoint)
    monkeypatch.setenv("TEST_SHORT_KEY", "sk-short")
    return model


@pytest.fixture
def compactor(tmp_path: Path, summarist: ScriptedModel) -> Path:
    path = tmp_path / "shorter.prompty"
    path.write_text(SHORTER)
    return path


def check(agents: ScriptedModel, summarist: ScriptedModel) -> None:
    """The summary is asked of the one model, and sent to the other."""
    assert [request.path for request in summarist.requests] == ["/v1/messages"]
    assert [request.path for request in agents.requests] == ["/v1/chat/completions"]
    assert summarist.requests[0].messages[-1].text.count("user: xxx") >= 2
    assert agents.requests[0].messages[0].text == "[Context summary: They said x.]"


@pytest.mark.parametrize("is_loaded", [False, True])
async def test_on_a_worker(
    stage: Stage, scripted: Scripted, summarist: ScriptedModel, compactor: Path, is_loaded: bool
) -> None:
    model = scripted([says("done")])
    given = perdure.load(compactor) if is_loaded else compactor
    async with stage.worker(compactors={"short": given}):
        run = await stage.start(scripted_agent(model), LONG, context_budget=1000, compactor="short")
        assert (await run.result()).output == "done"
    check(model, summarist)
