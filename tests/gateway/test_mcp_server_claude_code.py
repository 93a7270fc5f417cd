"""Claude Code's own command line against the gateway: it starts a task, goes on without it, is
told, has the result.

`npm install @anthropic-ai/claude-code@2.1.330` installs it; its model is scripted, and nothing
leaves this machine.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, asks, call, says
from perdure.testing.script import Script

from ..support.agents import scripted_agent
from ..support.needs import lacking
from ..support.tmux import Pane, Tmux, tmux_server
from .conftest import Serve
from .test_mcp_server import FIELDS

Scripted = Callable[[Script], ScriptedModel]
KEY = "sk-ant-api03-an-invented-key-that-opens-nothing-at-all"
TOOL = "mcp__perdure__tested"
RESULT = "The lamp was bought in 1921."


def claude() -> str:
    """The program, by `PERDURE_CLAUDE` or in the path."""
    found = os.environ.get("PERDURE_CLAUDE") or shutil.which("claude")
    if not found:
        lacking(
            "claude (npm install @anthropic-ai/claude-code@2.1.330; in the path, or named by "
            "PERDURE_CLAUDE)"
        )
    return found


def reply(request: ScriptedRequest) -> ScriptedReply:
    """What Claude Code's model says: it looks for the tool, calls it, and reads what it is told
    later.
    """
    said = json.dumps(request.body["messages"])
    if not request.body.get("tools"):
        return says("A lamp.")
    if RESULT in said:
        return says("FETCHED: it was bought in 1921.")
    if f'"name": "{TOOL}"' in said:
        return says("STARTED: the agent is at work.")
    if any(each.get("name") == TOOL for each in request.body["tools"]):
        return asks(call(TOOL, "toolu_01perdure", question="When was the lamp bought?"))
    return asks(call("ToolSearch", "toolu_00search", query=f"select:{TOOL}", max_results=1))


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Tmux]:
    with tmux_server({"PATH": os.environ["PATH"], "HOME": str(tmp_path)}) as server:
        yield server


def settings(home: Path, url: str) -> None:
    """A home in which Claude Code has asked all that it asks at first, and the server."""
    project = {
        "hasTrustDialogAccepted": True,
        "hasCompletedProjectOnboarding": True,
        "projectOnboardingSeenCount": 1,
    }
    answered = {"approved": [KEY[-20:]], "rejected": []}
    known: dict[str, Any] = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "numStartups": 5,
        "customApiKeyResponses": answered,
        "projects": {str(home): project},
    }
    (home / ".claude.json").write_text(json.dumps(known))
    servers = {"mcpServers": {"perdure": {"type": "http", "url": f"{url}/mcp/"}}}
    (home / "mcp.json").write_text(json.dumps(servers))


def start(terminal: Tmux, program: str, home: Path, model: ScriptedModel) -> Pane:
    """Claude Code in a terminal of its own."""
    environment = {
        "ANTHROPIC_BASE_URL": model.anthropic_endpoint,
        "ANTHROPIC_API_KEY": KEY,
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
    }
    given = [word for name, value in environment.items() for word in ("-e", f"{name}={value}")]
    options = [
        "--mcp-config",
        "mcp.json",
        "--strict-mcp-config",
        "--allowedTools",
        TOOL,
        "ToolSearch",
    ]
    id = terminal(
        "new-session",
        "-d",
        "-P",
        "-F",
        "#{pane_id}",
        "-x",
        "160",
        "-y",
        "50",
        "-c",
        str(home),
        *given,
        program,
        *options,
    )
    return Pane(terminal, id.strip())


@pytest.mark.trial
@pytest.mark.timeout(180)
async def test_a_task_is_started_and_its_result_fetched(
    scripted: Scripted, serve_agents: Serve, terminal: Tmux, tmp_path: Path
) -> None:
    program = claude()
    agents_model, its_model = scripted([says(RESULT, delay=6.0)]), scripted(reply)
    async with serve_agents(scripted_agent(agents_model, **FIELDS)) as served:
        settings(tmp_path, served.url)
        pane = start(terminal, program, tmp_path, its_model)
        await pane.shows(r"❯|>")
        pane.type("When was the lamp bought?")
        await pane.shows("STARTED: the agent is at work")
        await pane.shows("FETCHED: it was bought in 1921")
    assert len(agents_model.requests) == 1, "asked for, not started again"
