"""Importing the user's tool modules."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.errors import ConfigurationError
from perdure.tools import clear_tools
from perdure.tools.handlers import load_tools

SOURCE = """
from perdure.tools import tool
import sibling_of_tools

@tool
def first(): return sibling_of_tools.VALUE

@tool(name="second")
def another(): ...

alias = first
def plain(): ...
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "my_tools.py").write_text(SOURCE)
    (tmp_path / "sibling_of_tools.py").write_text("VALUE = 7")
    (tmp_path / "no_tools.py").write_text("def plain(): ...")
    (tmp_path / "broken.py").write_text("import surely_not_there")
    with contextlib.chdir(tmp_path):
        yield tmp_path
    clear_tools()
    for name in ("my_tools", "sibling_of_tools", "no_tools", "broken"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("source", ["my_tools", "my_tools.py", "./my_tools.py"])
def test_all_decorated_functions_of_a_module_or_file(source: str) -> None:
    path_before = list(sys.path)
    loaded = load_tools(source)
    assert list(loaded) == ["first", "second"]
    assert loaded["first"]() == 7
    assert sys.path == path_before


def test_named_functions_by_tool_name_or_function_name() -> None:
    assert list(load_tools("my_tools:second")) == ["second"]
    assert list(load_tools("my_tools.py:another, plain")) == ["second", "plain"]


def test_several_sources_together(folder: Path) -> None:
    assert list(load_tools("my_tools:first", f"{folder}/no_tools.py:plain")) == ["first", "plain"]


def test_a_syntax_error_is_shown_with_its_line(folder: Path) -> None:
    (folder / "half.py").write_text(
        "from perdure import tool\n\n@tool\ndef look(at: str -> str:\n    return at\n"
    )
    with pytest.raises(ConfigurationError) as caught:
        load_tools("half.py")
    assert "SyntaxError: " in str(caught.value)
    assert str(caught.value).endswith(
        f"\n  {folder.resolve() / 'half.py'}:4: def look(at: str -> str:"
    )


def test_what_a_file_raises_is_shown_with_its_line(folder: Path) -> None:
    (folder / "raises.py").write_text("def of():\n    return {}['key']\n\nof()\n")
    with pytest.raises(ConfigurationError, match="KeyError: 'key'") as caught:
        load_tools("raises.py")
    assert str(caught.value).endswith(f"\n  {folder.resolve() / 'raises.py'}:2: return {{}}['key']")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("nowhere", r"Can't load 'nowhere': no module 'nowhere' in .* given as path/to/file.py"),
        ("nowhere.deep:a", "Can't load 'nowhere.deep': no module 'nowhere'"),
        ("nowhere.py", "Can't load 'nowhere.py': there is no file /"),
        (
            "no_tools",
            "No tools in 'no_tools': put @tool above a function there, or name functions: "
            "no_tools:name1",
        ),
        ("my_tools:third", "No function 'third' in 'my_tools'; tools there: first, second"),
        ("no_tools.py:x", "No function 'x' in 'no_tools.py'; tools there: none"),
        ("broken", "importing it failed: ModuleNotFoundError: No module named 'surely_not_there'"),
        (
            "broken.py",
            "importing it failed: ModuleNotFoundError: No module named 'surely_not_there'",
        ),
    ],
)
def test_what_is_wrong_is_said(source: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        load_tools(source)
