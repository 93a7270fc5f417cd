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

EXAMPLE = Path(__file__).parents[2] / "examples" / "code_reader"


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


async def test_searching_finds_lines_by_text_and_by_regular_expression(call: Any) -> None:
    assert (await call("search_text", query="line 77", pattern="*.py", max_results=2)).text == (
        "pkg/a.py:77: line 77\npkg/a.py:770: line 770\n… 9 more lines match"
    )
    assert (
        await call("search_text", query=r"^line 7$", is_regex=True)
    ).text == "pkg/a.py:7: line 7"
    assert (await call("search_text", query="^line")).text == "No line matches '^line'."


async def test_searching_never_leaves_the_tree(call: Any) -> None:
    assert "secret" not in (await call("search_text", query="line 7")).text
    assert (
        await call("search_text", query="secret", pattern="../*")
    ).text == "No line matches 'secret'."


async def test_a_bad_regular_expression_is_explained(call: Any) -> None:
    result = await call("search_text", query="(", is_regex=True)
    assert result.text.startswith(
        "Error: Tool 'search_text' failed: ValueError: '(' is not a regular expression: missing )"
    )


def test_an_endless_regular_expression_is_stopped(tools: ToolBox, root: Path) -> None:
    (root / "pkg" / "a.py").write_text("a" * 200 + "!")
    source_tree = sys.modules["source_tree"]
    with pytest.raises(TimeoutError, match="took over 0.5 seconds: use a simpler one"):
        source_tree.search_apart(str(root), "(a+)+$", pattern="*", max_results=9, seconds=0.5)


async def test_reading_gives_numbered_lines(call: Any) -> None:
    assert (await call("read_file", path="pkg/a.py", first_line=9, last_line=10)).text == (
        "pkg/a.py, lines 9 to 10\n    9  line 9\n   10  line 10\n… 990 more lines"
    )
    whole = (await call("read_file", path="pkg/a.py")).text.splitlines()
    assert (len(whole), whole[-1]) == (402, "… 600 more lines")
    assert (await call("read_file", path="within.md")).text.endswith("    2  See pkg.")
    assert (
        await call("read_file", path="pkg/a.py", first_line=5000)
    ).text == "pkg/a.py has fewer than 5000 lines."


async def test_a_very_long_line_is_cut(call: Any, root: Path) -> None:
    (root / "long.txt").write_text("x" * 1_000_000)
    text = (await call("read_file", path="long.txt")).text
    assert text.endswith("… (1000000 characters)")
    assert len(text) < 500


@pytest.mark.parametrize(
    "path",
    ["../secret.txt", "/etc/passwd", "escape.txt", "escape/secret.txt", "pkg/../../secret.txt"],
)
async def test_reading_never_leaves_the_tree(call: Any, path: str) -> None:
    result = await call("read_file", path=path)
    assert result.status == "error"
    assert f"{path!r} is outside the source tree" in result.text


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("nope.py", "there is no file 'nope.py'"),
        ("pkg", "there is no file 'pkg'"),
        ("pkg/b.bin", "is a binary file"),
    ],
)
async def test_what_cannot_be_read_is_explained(call: Any, path: str, text: str) -> None:
    assert text in (await call("read_file", path=path)).text


async def test_the_model_cannot_choose_the_root(call: Any, agent: Agent, tools: ToolBox) -> None:
    assert (await call("list_files", root="/")).text.startswith("4 files")
    result = await tools.execute(agent, "list_files", {}, {"root": "/surely/not/there"})
    assert (
        "there is no folder '/surely/not/there' to read from: set the input `root`" in result.text
    )
