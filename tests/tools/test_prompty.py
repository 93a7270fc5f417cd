"""The files of agents that an agent calls: which are read, and which are refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perdure.agents import Agent
from perdure.client.run_input import run_input
from perdure.errors import ConfigurationError, LoadError
from perdure.prompty.load import load
from perdure.tools.files import record_tools
from perdure.tools.prompty import AgentFiles

from ..support.families import calls, write_agent

ESCAPES = [
    ("/etc/hosts.prompty", "not a relative path"),
    ("{root}/inside.prompty", "not a relative path"),
    ("~/secret.prompty", "not a relative path"),
    ("C:/secret.prompty", "not a relative path"),
    ("file:///etc/secret.prompty", "not a relative path"),
    ("http://127.0.0.1/secret.prompty", "not a relative path"),
    ("..\\secret.prompty", "expected one with '/'"),
    ("inside.prompty\0", "expected one with '/'"),
    ("../outside/secret.prompty", "outside allowed roots"),
    ("team/../../outside/secret.prompty", "outside allowed roots"),
    ("./team/./../../outside/secret.prompty", "outside allowed roots"),
    ("../root-of-others/secret.prompty", "outside allowed roots"),
    ("link.prompty", "outside allowed roots"),
    ("linked/secret.prompty", "outside allowed roots"),
    ("linked/../../outside/secret.prompty", "outside allowed roots"),
    ("hops.prompty", "outside allowed roots"),
    ("dangling.prompty", "outside allowed roots"),
    ("loop.prompty", "loop|can't follow"),
    ("secret.txt", r"expected a \.prompty file"),
    ("", r"expected a \.prompty file"),
    ("..", r"expected a \.prompty file"),
    ("${file:inside.prompty}", r"expected a \.prompty file"),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with an agent's files, and what it must not reach beside it."""
    folder, outside = tmp_path / "root", tmp_path / "outside"
    write_agent(outside, "secret.prompty")
    write_agent(tmp_path, "root-of-others/secret.prompty")
    write_agent(folder, "inside.prompty")
    (folder / "secret.txt").write_text("secret")
    (folder / "team").mkdir()
    os.symlink(outside / "secret.prompty", folder / "link.prompty")
    os.symlink(outside, folder / "linked")
    os.symlink("link.prompty", folder / "hops.prompty")
    os.symlink(outside / "gone.prompty", folder / "dangling.prompty")
    os.symlink("loop.prompty", folder / "loop.prompty")
    return folder


def recorded_agents(agent: Agent) -> dict[str, Agent]:
    return record_tools(agent)[1]


@pytest.mark.parametrize(("path", "reason"), ESCAPES, ids=[path for path, _ in ESCAPES])
def test_nothing_outside_the_agent_s_folder_is_read(root: Path, path: str, reason: str) -> None:
    written = path.replace("{root}", str(root))
    tool = {"name": "child", "kind": "prompty", "path": written, "mode": "agentic"}
    agent = Agent.model_validate({"name": "chief", "tools": [tool]})
    files = AgentFiles(root)
    with pytest.raises(LoadError, match=reason):
        files.find(agent)
    assert not files.found


@pytest.mark.parametrize(
    "path", ["../../outside/secret.prompty", "../linked/secret.prompty", "/etc/x.prompty"]
)
def test_nor_does_a_called_agent_reach_out(root: Path, path: str) -> None:
    write_agent(root, "team/clerk.prompty", tools=[{**calls("x.prompty"), "path": path}])
    chief = write_agent(root, "chief.prompty", tools=[calls("team/clerk.prompty")])
    with pytest.raises(LoadError, match=r"outside allowed roots|not a relative path"):
        run_input(chief)


def test_a_root_that_the_caller_allows(root: Path) -> None:
    chief = write_agent(root, "chief.prompty", tools=[calls("../outside/secret.prompty")])
    found = recorded_agents(load(chief, allowed_file_roots=[root.parent / "outside"]))
    assert list(found) == ["../outside/secret.prompty"]


def test_paths_are_relative_to_the_file_that_names_them(root: Path) -> None:
    write_agent(root, "team/lib/reader.prompty", tools=[calls("../../inside.prompty")])
    write_agent(
        root,
        "team/clerk.prompty",
        tools=[calls("lib/reader.prompty"), calls("../team/lib/reader.prompty", "r")],
    )
    chief = write_agent(
        root,
        "chief.prompty",
        tools=[calls("./team/clerk.prompty"), calls("team/../inside.prompty")],
    )
    found = recorded_agents(load(chief))
    assert set(found) == {"inside.prompty", "team/clerk.prompty", "team/lib/reader.prompty"}
    assert [tool.path for tool in found["team/clerk.prompty"].tools or []] == [
        "team/lib/reader.prompty"
    ] * 2  # type: ignore[union-attr]


def test_circles_are_refused_unless_a_single_call_breaks_them(root: Path) -> None:
    write_agent(root, "b.prompty", tools=[calls("c.prompty")])
    write_agent(root, "c.prompty", tools=[calls("b.prompty")])
    chief = write_agent(root, "chief.prompty", tools=[calls("b.prompty")])
    with pytest.raises(LoadError, match=r"in a circle: b\.prompty → c\.prompty → b\.prompty"):
        recorded_agents(load(chief))
    write_agent(root, "c.prompty", tools=[{**calls("b.prompty"), "mode": "single"}])
    assert set(recorded_agents(load(chief))) == {"b.prompty", "c.prompty"}
    itself = write_agent(root, "itself.prompty", tools=[calls("itself.prompty")])
    with pytest.raises(LoadError, match=r"in a circle: itself\.prompty → itself\.prompty"):
        recorded_agents(load(itself))


def test_a_lattice_is_read_once(root: Path) -> None:
    for level in range(7):
        tools = [
            calls(f"{side}{level + 1}.prompty", f"{side}{number}")
            for side in "lr"
            for number in range(4)
        ]
        for side in "lr":
            write_agent(root, f"{side}{level}.prompty", tools=tools)
    write_agent(root, "l7.prompty")
    write_agent(root, "r7.prompty")
    assert len(recorded_agents(load(root / "l0.prompty"))) == 14


def test_an_absent_file_is_left_to_the_workers(root: Path) -> None:
    chief = write_agent(
        root, "chief.prompty", tools=[calls("gone.prompty"), calls("inside.prompty")]
    )
    assert list(recorded_agents(load(chief))) == ["inside.prompty"]


def test_a_literal_secret_is_refused_and_a_reference_is_recorded(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLERK_API_KEY", "sk-very-secret-0123456789")
    write_agent(root, "clerk.prompty")
    text = (
        (root / "clerk.prompty")
        .read_text()
        .replace('"kind": "key",', '"kind": "key", "apiKey": "KEY",')
    )
    chief = write_agent(root, "chief.prompty", tools=[calls("clerk.prompty")])
    (root / "clerk.prompty").write_text(text.replace('"KEY"', '"${env:CLERK_API_KEY}"'))
    recorded = recorded_agents(load(chief))["clerk.prompty"].model_dump_json()
    assert "${env:CLERK_API_KEY}" in recorded
    assert "very-secret" not in recorded
    (root / "clerk.prompty").write_text(text.replace('"KEY"', '"sk-literal-0123456789abcdef"'))
    with pytest.raises(
        ConfigurationError, match=r"clerk\.prompty: model\.connection\.apiKey"
    ) as refused:
        recorded_agents(load(chief))
    assert "sk-literal" not in str(refused.value)
