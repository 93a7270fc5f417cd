"""A file or a model that means harm: escapes for the terminal, names with control characters."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.cli.entry import run
from perdure.errors import ToolNotRegisteredError
from perdure.testing import asks, says

from ..loop.stage import Stage, written

AGENT = r"""---
name: hostile
model: {id: gpt-5-mini, provider: "\e[2Jopen"}
inputs:
  - {name: topic, kind: string, "\e[31mbad": 1, "\x9b2Jworse": 1}
---
user:
Tell me of {{topic}}.
"""


def test_escapes_of_a_file_do_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "agent.prompty"
    file.write_text(AGENT)
    run(["validate", str(file)])
    said = capsys.readouterr().err
    for word in ("open", r"\x1b[31mbad", r"\x9b2Jworse"):
        assert word in said
    assert all(character == "\n" or character.isprintable() for character in said)


async def test_the_name_of_an_unknown_tool_is_shown_escaped_and_short() -> None:
    stage = Stage(asks(written("\x1b[2J\0lo\nk" + "x" * 5000, "{}")), says("done"))
    await stage.play()
    (result,) = stage.results()
    assert result.startswith(r"Error: Tool not registered: \x1b[2J\x00lo\nkxxx")
    assert result.endswith("…. There are no tools.")
    assert len(result) < 300
    stage = Stage(asks(written("\x1b[2Jlook", "{}")), unknown_tools="raise")
    with pytest.raises(ToolNotRegisteredError, match=r"^Tool not registered: \\x1b\[2Jlook$"):
        await stage.play()
