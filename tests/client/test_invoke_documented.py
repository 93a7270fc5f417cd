"""The code that docs/guides/python.md shows: its names exist, and its first call is made as it stands
there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from perdure.testing import ScriptedModel, asks, says

from ..support.documents import ROOT

PAGE = ROOT / "docs/guides/python.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
USERS_OWN = {"tools"}

AGENT = """---
model:
  id: any
  connection: {kind: key, endpoint: "${env:TEST_ENDPOINT}", apiKey: "${env:TEST_KEY}"}
tools:
  - {name: get_weather, kind: function, parameters: [{name: city, kind: string}]}
---
user:
{{question}}
"""


@pytest.fixture
def model(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedModel]:
    """A model for the page's agent, in whose folder the test is; the environment names the
    session's server.
    """
    (tmp_path / "weather.prompty").write_text(AGENT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    with ScriptedModel([asks("get_weather", city="Paris"), says("Sunny.")]) as model:
        monkeypatch.setenv("TEST_ENDPOINT", model.openai_endpoint)
        monkeypatch.setenv("TEST_KEY", "k")
        yield model


async def test_the_first_call(model: ScriptedModel) -> None:
    names: dict[str, object] = {}
    exec(compile(BLOCKS[0], str(PAGE), "exec"), names)
    assert names["answer"] == "Sunny."
    assert model.requests[1].messages[-1].text == "sunny in Paris"


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().partition("\n")[0])
def test_names_that_are_imported_exist(block: str) -> None:
    compile(block, str(PAGE), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module not in USERS_OWN:
            assert {alias.name for alias in node.names} <= set(dir(import_module(node.module)))
