"""The code reader's tools: confined to their root, and bounded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.agents import Agent
from perdure.messages import ToolResult
from perdure.prompty.load import load
from perdure.tools import clear_tools
from perdure.tools.dispatch import ToolBox
from perdure.tools.handlers import load_tools
from perdure.tools.kind import Asking

from ..support.documents import ROOT

EXAMPLE = ROOT / "examples/code_reader"


@pytest.fixture(scope="module")
def agent() -> Agent:
    return load(EXAMPLE / "code_reader.prompty")


@pytest.fixture(scope="module")
def tools() -> Iterator[ToolBox]:
    yield ToolBox(load_tools(str(EXAMPLE / "tools.py")))
    clear_tools()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small source tree with a secret beside it."""
    tree = tmp_path / "tree"
    (tree / "pkg").mkdir(parents=True)
    (tree / ".git").mkdir()
    (tree / "README.md").write_text("Hello.\nSee pkg.\n")
    (tree / "pkg" / "a.py").write_text("".join(f"line {number}\n" for number in range(1, 1001)))
    (tree / "pkg" / "b.bin").write_bytes(b"\x00line 7\n")
    (tree / ".git" / "config").write_text("line 7")
    (tmp_path / "secret.txt").write_text("line 7: the secret")
    (tree / "escape.txt").symlink_to(tmp_path / "secret.txt")
    (tree / "escape").symlink_to(tmp_path)
    (tree / "within.md").symlink_to(tree / "README.md")
    return tree


@pytest.fixture
def call(agent: Agent, tools: ToolBox, root: Path) -> Any:
    async def execute(name: str, **arguments: Any) -> ToolResult:
        return await tools.execute(agent, name, arguments, {"root": str(root)}, timeout=20)

    return execute


async def test_every_declared_tool_has_its_function(agent: Agent, tools: ToolBox) -> None:
    inventory = await tools.inventory(Asking(agent, {}))
    assert [spec.name for spec in inventory.tools] == ["list_files", "search_text", "read_file"]
    assert inventory.missing == {}


async def test_files_are_listed_without_hidden_ones_and_links_that_lead_out(call: Any) -> None:
    listed = (await call("list_files")).text.splitlines()
    assert [line.partition(" (")[0] for line in listed] == [
        "4 files",
        "README.md",
        "pkg/a.py",
        "pkg/b.bin",
        "within.md",
    ]
    assert (await call("list_files", pattern="**/*.py")).text.startswith("1 files\npkg/a.py (")
    assert (await call("list_files", pattern="*.rs")).text == "No file matches '*.rs'."
    assert (await call("list_files", max_results=1)).text.endswith("… 3 more files")


async def test_searching_never_leaves_the_tree(call: Any) -> None:
    assert "secret" not in (await call("search_text", query="line 7")).text
    assert (
        await call("search_text", query="secret", pattern="../*")
    ).text == "No line matches 'secret'."


def test_an_endless_regular_expression_is_stopped(tools: ToolBox, root: Path) -> None:
    (root / "pkg" / "a.py").write_text("a" * 200 + "!")
    source_tree = sys.modules["source_tree"]
    with pytest.raises(TimeoutError, match="took over 0.5 seconds: use a simpler one"):
        source_tree.search_apart(str(root), "(a+)+$", pattern="*", max_results=9, seconds=0.5)


@pytest.mark.parametrize(
    "path",
    ["../secret.txt", "/etc/passwd", "escape.txt", "escape/secret.txt", "pkg/../../secret.txt"],
)
async def test_reading_never_leaves_the_tree(call: Any, path: str) -> None:
    result = await call("read_file", path=path)
    assert result.status == "error"
    assert f"{path!r} is outside the source tree" in result.text
