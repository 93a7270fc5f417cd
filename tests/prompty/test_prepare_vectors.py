"""The upstream conformance vectors for loading, rendering and parsing."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from perdure.agents import Agent
from perdure.json_types import JsonObject
from perdure.prompty.load import load, load_dict
from perdure.prompty.parse import parse
from perdure.prompty.portable import agent_to_dict
from perdure.prompty.prepare import validate_inputs
from perdure.prompty.render import render

from ..support.prompty_vectors import FOLDER, assert_contains, vectors


def load_vector(case: JsonObject, folder: Path) -> Agent:
    given = case["input"]
    home = folder / given.get("agent_subdir", ".")
    for name, content in given.get("files", {}).items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(json.dumps(content))
    if "fixture" in given:
        shutil.copy(FOLDER / "fixtures" / given["fixture"], home)
        return load(home / given["fixture"])
    file = home / "vector.prompty"
    file.write_text(
        given.get("frontmatter_raw") or f"---\n{yaml.safe_dump(given['frontmatter'])}---\nBody"
    )
    return load(file)


@pytest.mark.parametrize("case", vectors("LoadConformance", "load"))
def test_load(case: JsonObject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in case["input"].get("env", {}).items():
        monkeypatch.setenv(name, value)
    expected = case["expected"]
    if "error" in expected:
        with pytest.raises(ValueError, match=f"(?i){re.escape(expected['error'])}"):
            load_vector(case, tmp_path)
        return
    agent = load_vector(case, tmp_path)
    if "validated_inputs" in expected:
        assert validate_inputs(agent, case["input"]["inputs"]) == expected["validated_inputs"]
    else:
        assert_contains(agent_to_dict(agent, include_secrets=True), expected)


@pytest.mark.parametrize("case", vectors("Renderer", "render"))
def test_render(case: JsonObject) -> None:
    given = case["input"]
    if given["engine"] == "mustache":
        pytest.skip("mustache is optional (§5)")
    rich = {
        name: value["_kind"] for name, value in given["inputs"].items() if isinstance(value, dict)
    }
    agent = load_dict(
        {
            "instructions": given["template"],
            "inputs": {name: {"kind": kind} for name, kind in rich.items()},
        }
    )
    rendered = render(agent, given["inputs"])
    if "nonce_pattern" in case["expected"]:
        assert re.search(case["expected"]["nonce_pattern"], rendered)
    else:
        assert rendered == case["expected"]["rendered"]


@pytest.mark.parametrize("case", vectors("Parser", "parse"))
def test_parse(case: JsonObject) -> None:
    messages = parse(Agent(), case["input"]["rendered"])
    expected = case["expected"]["messages"]
    assert [(message.role, message.text) for message in messages] == [
        (message["role"], "".join(part["value"] for part in message["content"]))
        for message in expected
    ]
    assert [message.metadata for message in messages] == [
        message.get("metadata", {}) for message in expected
    ]
