"""The scripted model's life: starting, waiting, closing, and running as a program of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from perdure.testing import ScriptedModel, ScriptedReply

from .conftest import QUESTION


def test_closing_gives_up_answers_under_way() -> None:
    with ScriptedModel([ScriptedReply(delay=30)]) as model:
        client = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"import urllib.request as u; u.urlopen('{model.openai_endpoint}/responses', "
                f"b'{{}}')",
            ],
            stderr=subprocess.DEVNULL,
        )
        model.wait_until(lambda: len(model.requests) == 1)
    assert client.wait(5) == 1
    assert not model.requests[0].aborted
    with pytest.raises(RuntimeError, match="not running"):
        _ = model.url


def test_wait_until_gives_up() -> None:
    with ScriptedModel([]) as model, pytest.raises(TimeoutError, match="requests so far: \\[\\]"):
        model.wait_until(lambda: bool(model.requests), timeout=0.01)


@pytest.fixture
def script_file(tmp_path: Path) -> Path:
    call = {"id": "c", "name": "f", "arguments": {"x": 1}}
    path = tmp_path / "script.json"
    path.write_text(json.dumps([{"tool_calls": [call]}, [{"status": 500}, {"text": "ok"}]]))
    return path


@pytest.fixture
def started(script_file: Path) -> Iterator[subprocess.Popen[str]]:
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "perdure.testing.server",
        "--script",
        str(script_file),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with process:
        yield process
        process.kill()


def test_it_runs_as_a_program(started: subprocess.Popen[str]) -> None:
    assert started.stdout is not None
    url = started.stdout.readline().strip()
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k") as client:
        answer = client.chat.completions.create(model="m", messages=QUESTION)
    calls: Any = answer.choices[0].message.tool_calls
    assert calls[0].function.arguments == '{"x": 1}'
    os.kill(started.pid, signal.SIGTERM)
    assert started.wait(5) == 0


def test_a_bad_script_file_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text('[{"txt": "typo"}]')
    command = [sys.executable, "-m", "perdure.testing.server", "--script"]
    for source in (tmp_path / "script.json", tmp_path / "none.json"):
        done = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert str(source) in done.stderr
