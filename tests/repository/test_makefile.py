"""`make run` says which model answers, by the keys that are set."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def planned(target: str, **variables: str) -> str:
    """The commands that make would run."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith("_API_KEY") and name != "MAKEFLAGS"
    }
    command = ["make", "--dry-run", "--always-make", target]
    return subprocess.run(
        command, cwd=ROOT, env={**kept, **variables}, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize(
    ("variables", "is_scripted"),
    [
        ({}, True),
        ({"OPENAI_API_KEY": "k"}, False),
        ({"ANTHROPIC_API_KEY": "k"}, False),
        ({"OPENAI_API_KEY": ""}, True),
    ],
)
def test_the_model_is_scripted_only_without_a_key(
    variables: dict[str, str], is_scripted: bool
) -> None:
    assert ("--scripted" in planned("run", **variables)) is is_scripted


@pytest.mark.parametrize("target", ["test", "check", "bench", "chaos", "dev", "docs"])
def test_targets_exist(target: str) -> None:
    assert "pip install" in planned(target)
