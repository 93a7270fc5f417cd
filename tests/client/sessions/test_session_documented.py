"""The code that docs/guides/sessions.md shows, as it stands there."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from perdure.testing import ScriptedModel

from ...support.documents import ROOT

PAGE = ROOT / "docs/guides/sessions.md"
AGENT = """---
model:
  id: any
  connection: {kind: key, endpoint: "%s"}
inputs:
  - {name: question, kind: string, required: true}
---
system:
You are a librarian.

user:
{{question}}
"""


async def test_the_first_example(
    model: ScriptedModel, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "helper.prompty").write_text(AGENT % model.openai_endpoint)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    names: dict[str, list[str]] = {}
    await asyncio.to_thread(exec, compile(code, str(PAGE), "exec"), names)
    first, second = "Which books do you have on bees?", "Which of them is the shortest?"
    assert names["said"] == [
        "You are a librarian.",
        first,
        f"You said {first}.",
        second,
        f"You said {second}.",
    ]
