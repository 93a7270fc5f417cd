"""What type checkers, and so editors, know of a call: every parameter, every option, the result."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

import perdure
from perdure.client.invoke_types import MoreOptions

ROOT = Path(__file__).parents[2]

SAMPLE = """
import perdure
from perdure.client import connect, get_run, session, start_run
from perdure.testing import run_in_process
from pydantic import BaseModel


class City(BaseModel):
    name: str


@perdure.tool
def look(at: str) -> str:
    return at


perdure.invoke_agent("a.prompty")
perdure.invoke_agent("a.prompty", {"q": 1}, [look], max_iterations=3, tool_timeout=2.0, on_limit="partial")
perdure.invoke_agent("a.prompty", tools={"look": look}, cancel=perdure.CancellationToken(), max_seconds=None)
perdure.invoke_agent("a.prompty", max_iteration=3)  # wrong
perdure.invoke_agent("a.prompty", on_limit="never")  # wrong
perdure.invoke_agent("a.prompty", max_tool_calls="3")  # wrong
perdure.invoke_agent(3)  # wrong
perdure.invoke_agents("a.prompty")  # wrong
perdure.invoke_agent("a.prompty", approve=lambda pending: pending.name != "pay", answer=lambda pending: "yes")
perdure.invoke_agent("a.prompty", approve=3)  # wrong


async def main() -> None:
    client = await connect()
    await perdure.invoke_agent_async("a.prompty", client=client, rate_limit_seconds=1.5)
    await perdure.invoke_agent_async("a.prompty", client="localhost:7233")  # wrong
    await perdure.invoke_agent_async("a.prompty", {}, [], 3)  # wrong
    value = perdure.invoke_agent("a.prompty")
    reveal_type(value)
    reveal_type(perdure.invoke_agent("a.prompty", output_type=City))
    reveal_type((await (await start_run(client, "a.prompty")).result()).output)
    reveal_type((await (await start_run(client, "a.prompty", output_type=City)).result()).output)
    reveal_type((await get_run(client, "a", output_type=City).result()).output)
    reveal_type(perdure.invoke_agent("a.prompty", stream=True))
    reveal_type(await perdure.invoke_agent_async("a.prompty", stream=True))
    reveal_type(await perdure.invoke_agent_async("a.prompty", output_type=City))
    reveal_type(run_in_process("a.prompty", model=[], output_type=City).output)
    reveal_type(run_in_process("a.prompty", model=[]).output)
    reveal_type((await (await session(client, "a.prompty", "a", output_type=City).send("?")).result()).output)
    reveal_type((await (await session(client, "a.prompty", "a").send("?")).result()).output)
"""
WRONG = [number for number, line in enumerate(SAMPLE.splitlines(), 1) if line.endswith("# wrong")]


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "sample.py"
    path.write_text(SAMPLE)
    return path


def test_mypy_sees_every_parameter(sample: Path) -> None:
    # What is wrong in perdure itself, `make check` says: what it has cached is used, else
    # declarations alone are read.
    follow = [] if (ROOT / ".mypy_cache").exists() else ["--follow-imports=silent"]
    command = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", *follow, str(sample)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110).stdout
    assert sorted({int(line) for line in re.findall(r"sample\.py:(\d+): error", said)}) == WRONG, (
        said
    )
    assert re.findall('Revealed type is "(.*)"', said) == [
        "Any",
        "sample.City",
        "Any",
        "sample.City",
        "sample.City",
        "Any",
        "Any",
        "sample.City",
        "sample.City",
        "Any",
        "sample.City",
        "Any",
    ]


@pytest.mark.skipif(shutil.which("pyright") is None, reason="pyright is not installed")
def test_pyright_sees_every_parameter(sample: Path) -> None:
    command = ["pyright", "--outputjson", "--pythonpath", sys.executable, str(sample)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = [each for each in found if each["severity"] == "error"]
    assert [each["range"]["start"]["line"] + 1 for each in errors] == WRONG, errors
    shown = [each["message"] for each in found if each["message"].startswith("Type of")]
    assert any(message.endswith('is "City"') for message in shown)


def test_every_run_option_is_a_parameter_of_the_same_type() -> None:
    named = get_type_hints(perdure.invoke_agent_async)
    more = get_type_hints(MoreOptions)
    assert more.keys().isdisjoint(named)
    for name, field in perdure.RunOptions.model_fields.items():
        # Of these the call takes more forms: what a name stands for, an address.
        if name not in ("guardrails", "compactor", "webhooks"):
            assert (more | named)[name] == field.annotation, name
    assert more.keys() < perdure.RunOptions.model_fields.keys()


def test_the_defaults_are_those_of_the_run_options() -> None:
    fields = perdure.RunOptions.model_fields
    parameters = inspect.signature(perdure.invoke_agent).parameters
    shared = [name for name in parameters if name in fields]
    assert {name: parameters[name].default for name in shared} == {
        name: fields[name].default for name in shared
    }
    assert len(shared) >= 7


def test_the_plain_form_is_described_like_the_other() -> None:
    assert inspect.signature(perdure.invoke_agent) == inspect.signature(perdure.invoke_agent_async)
    assert perdure.invoke_agent.__name__ == "invoke_agent"
    assert not inspect.iscoroutinefunction(perdure.invoke_agent)
