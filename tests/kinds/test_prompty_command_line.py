"""Called agents on the command line: what `validate` finds, and how a run is watched and decided
about.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from perdure.cli.surroundings import further_checks
from perdure.prompty.check.check import check
from perdure.prompty.load import load
from perdure.protocol.outcome import RunStatus
from perdure.testing import asks, call, says

from ..support.agents import Scripted
from ..support.command_line import Cli, clean_environment
from ..support.documents import ROOT
from ..support.families import calls, family_script, write_agent
from ..support.stage import Stage
from ..support.waiting import wait_for

DOCS = ROOT / "docs/guides/other-agents.md"


@pytest.fixture
def cli(address: str, tmp_path: Path) -> Cli:
    return Cli({**clean_environment(tmp_path), "TEMPORAL_ADDRESS": address}, tmp_path)


async def test_a_decision_in_a_called_run(
    cli: Cli, stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    script = {
        "chief": [asks(call("clerk")), says("done")],
        "clerk": [asks(call("pay")), says("paid")],
    }
    model = scripted(family_script(script))
    pay = {"name": "pay", "kind": "function", "parameters": [], "perdure": {"approval": "always"}}
    write_agent(tmp_path, "clerk.prompty", model, tools=[pay])
    chief = write_agent(tmp_path, "chief.prompty", model, tools=[calls("clerk.prompty")])
    async with stage.worker({"pay": lambda: "ok"}):
        run = await stage.start(load(chief))

        async def waiting() -> RunStatus | None:
            status = await run.status()
            return status if status.pending_approvals else None

        await wait_for(waiting)
        status = await cli("status", run.id)
        assert f"perdure approve {run.id}/1-0 call_pay" in status.stdout
        approved = await cli("approve", run.id)
        assert (approved.code, f"of run {run.id}/1-0" in approved.stderr) == (0, True)
        assert (await run.result()).output == "done"
        told = await cli("events", run.id, "--children")
    lines = [line for line in told.stdout.splitlines() if line.endswith(f"[{run.id}/1-0]")]
    assert any("permission_completed" in line for line in lines)
    assert ["child_started", "run", f"{run.id}/1-0"] in [
        line.split()[2:5] for line in told.stdout.splitlines()
    ]


@pytest.mark.parametrize(
    ("tools", "metadata", "error"),
    [
        ([calls("inside.prompty")], {}, None),
        ([calls("../outside.prompty")], {}, "lies outside the folder of the agent"),
        ([calls("/outside.prompty")], {}, "not a relative path"),
        ([calls("gone.prompty")], {}, "there is no file 'gone.prompty'"),
        ([calls("inside.prompty", perdure={"retries": 2})], {}, "an agent is not run again"),
        ([calls("one.prompty")], {}, "calls itself, in a circle of agents"),
        ([], {"agents": [{"name": "clerk", "path": "inside.prompty"}]}, None),
        (
            [],
            {"agents": [{"path": "inside.prompty"}], "handoffs": [{"path": "inside.prompty"}]},
            None,
        ),
        (
            [],
            {"agents": [{"name": "cl erk", "path": "inside.prompty"}]},
            "expected a name of at most 52 letters",
        ),
        (
            [],
            {"agents": [{"name": "clerk", "path": "gone.prompty"}]},
            "there is no file 'gone.prompty'",
        ),
        ([], {"agents": "clerk"}, "expected a list of"),
        ([], {"handoffs": ["inside.prompty", "back.prompty", "team/billing.prompty"]}, None),
        ([], {"handoffs": ["team/biling.prompty"]}, "there is no file 'team/biling.prompty'"),
        ([], {"handoffs": ["insid.prompty"]}, "(did you mean 'inside.prompty'?)"),
        (
            [],
            {"handoffs": [{"name": "x"}]},
            "handoffs: {'name': 'x'}: expected the path of a .prompty file",
        ),
        ([], {"agents": [{"name": "clerk", "url": "http://clerk:8000", "context": 6}]}, None),
        ([], {"agents": [{"name": "clerk", "url": "${env:NOT_SET_HERE}"}]}, None),
        (
            [],
            {"agents": [{"name": "clerk", "url": "clerk:8000"}]},
            "delegate_to_clerk: 'connection.endpoint' is",
        ),
        ([], {"agents": [{"name": "clerk"}]}, "expected either path"),
        (
            [],
            {"agents": [{"name": "clerk", "url": "http://c", "headers": {"a b": "c"}}]},
            "options.headers.a b: String should match",
        ),
        (
            [],
            {
                "agents": [
                    {"name": "clerk", "url": "http://c", "apiKey": "sk-proj-abcdefghijklmnop"}
                ]
            },
            "is a secret",
        ),
    ],
)
def test_what_validate_finds(
    tmp_path: Path, tools: list[dict[str, object]], metadata: dict[str, object], error: str | None
) -> None:
    write_agent(tmp_path, "outside.prompty")
    folder = tmp_path / "here"
    write_agent(folder, "inside.prompty")
    write_agent(folder, "one.prompty", tools=[calls("two.prompty")])
    write_agent(folder, "two.prompty", tools=[calls("one.prompty")])
    for name, to in (
        ("back", "team/billing.prompty"),
        ("team/billing", "../back.prompty"),
        ("team/lost", "back"),
    ):
        write_agent(folder, f"{name}.prompty", metadata={"perdure": {"handoffs": [to]}})
    chief = write_agent(folder, "chief.prompty", tools=tools, metadata={"perdure": metadata})
    found = [
        problem.message
        for problem in check(chief, also=further_checks())
        if problem.severity == "error"
    ]
    assert bool(found) == (error is not None), found
    assert (error or "") in "".join(found)


def test_the_entries_of_the_page_on_delegation(tmp_path: Path) -> None:
    blocks = DOCS.read_text().split("```")
    [written] = [
        block.removeprefix("yaml\n") for block in blocks if block.startswith("yaml\nmetadata")
    ]
    write_agent(tmp_path, "clerk.prompty")
    chief = write_agent(tmp_path, "chief.prompty", **yaml.safe_load(written))
    found = [
        problem
        for problem in check(chief, also=further_checks())
        if "not set" not in problem.message
    ]
    assert found == []
