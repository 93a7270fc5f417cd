"""The official conformance suites of MCP against the gateway: what fails is what agents do not
have.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perdure.agents import Agent
from perdure.json_types import JsonObject
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.conformance import conformance
from .conftest import Serve
from .test_own import PAY, pay

EXPLAINED = {
    "a gateway offers tools: no resources, prompts, completions or log": (
        "Method not found|-32601|data.uri"
    ),
    "agents answer by text and JSON, and ask by tasks: there is no agent of that name": (
        "There is no tool "
        "'test_(image|audio|embedded|multiple|sampling|elicit|input_required|tool_with_task)"
        "|There is no tool '(multi_input|protocol_error_job)'|json_schema_2020_12_tool|diagnostic "
        "tool"
        "|x-mcp-header|InputRequiredResult"
    ),
    "each call of an agent is a task, for none is known to be short": (
        "sync tool|want .complete.|sync ToolResult"
    ),
    "an approval is given in the form that was asked for, not in one of the suite's": "confirm-delete-",
    "no agent can be called by clients with tasks alone": (
        "failing_job returned a successful response"
    ),
    "the server keeps no session, and sends no stream that could be gone on with": "WARNING|priming event|retry field",
}
"""Why checks fail, and may."""
WHOLE = {
    "@modelcontextprotocol/conformance": (
        "server-initialize ping tools-list tools-call-simple-text tools-call-error "
        "tools-call-with-progress dns-rebinding-protection"
    ),
    "conformance-next": (
        "server-initialize server-session-lifecycle ping tools-list tools-call-simple-text "
        "tools-call-error tools-call-with-progress dns-rebinding-protection http-header-validation "
        "tasks-capability-negotiation tasks-wire-fields tasks-request-state-removal "
        "tasks-status-notifications input-required-result-unsupported-methods "
        "input-required-result-validate-input"
    ),
}
"""The scenarios without a failed check, but for those of skills, which a server without resources
can't fail."""


def reply(request: ScriptedRequest) -> ScriptedReply:
    """What the agents of the suite's tools say."""
    messages = request.body["messages"]
    if messages[-1]["role"] == "tool":
        return says("Done.")
    asked = messages[-1]["content"]
    if asked == "fail":
        return ScriptedReply(status=400, text="This tool fails.")
    if asked in ("look", "pay"):
        return asks(call(asked, **({"euros": 3} if asked == "pay" else {})))
    seconds = re.search(r"(\d+) s", asked)
    return says(
        "This is a simple text response for testing.", delay=float(seconds[1]) if seconds else 0.0
    )


def agents_for(model: ScriptedModel) -> list[Agent]:
    """Agents of the names that the suites call."""
    seconds = [
        {"name": "seconds", "kind": "float", "required": True},
        {"name": "label", "kind": "string"},
    ]
    filename = [{"name": "filename", "kind": "string"}]
    made: dict[str, JsonObject] = {
        "test_simple_text": {},
        "test_error_handling": {"instructions": "user:\nfail"},
        "test_tool_with_progress": {"instructions": "user:\nlook", "tools": ["look"]},
        "greet": {
            "inputs": [{"name": "name", "kind": "string"}],
            "instructions": "user:\nHello {{name}}",
        },
        "slow_compute": {"inputs": seconds, "instructions": "user:\n{{seconds}} s"},
        "failing_job": {"instructions": "user:\nfail"},
        "confirm_delete": {"inputs": filename, "instructions": "user:\npay", "tools": [PAY]},
    }
    return [
        scripted_agent(model, name=name, **{"instructions": "user:\nHi", **each})
        for name, each in made.items()
    ]


@pytest.mark.parametrize("suite", WHOLE)
async def test_what_fails_of_the_suite_is_what_agents_do_not_have(
    scripted: Scripted, serve_agents: Serve, tmp_path: Path, suite: str
) -> None:
    tools = {"pay": pay, "look": lambda text="": "seen"}
    agents = agents_for(scripted(reply))
    async with serve_agents(
        *agents, tools=tools, hosts=["127.0.0.1"], cancels_tasks=True
    ) as served:
        played = await conformance(
            suite, tmp_path, "server", "--url", f"{served.url}/mcp/", "--suite", "all"
        )
    failed = {name: [why for why in checks.values() if why] for name, checks in played.items()}
    assert {name for name, faults in failed.items() if not faults and "skills" not in name} == set(
        WHOLE[suite].split()
    )
    explained = "|".join(EXPLAINED.values())
    assert [
        (name, why)
        for name, faults in failed.items()
        for why in faults
        if not re.search(explained, why)
    ] == []
