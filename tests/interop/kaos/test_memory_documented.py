"""What docs/guides/kaos.md shows: its agent, its mock answers and its calls of the memory, as they stand
there.
"""

from __future__ import annotations

import ast
import re
from inspect import CO_COROUTINE
from pathlib import Path

import pytest
from temporalio.client import Client

from perdure import load
from perdure.interop.kaos import EVENT_TYPES, KaosMemory, MemoryEvent, NullMemory
from perdure.json_types import JsonObject
from perdure.settings.agent_file import options_for
from perdure.worker import create_worker

from ...support.documents import manual

PAGE = manual("guides/kaos.md")
RESEARCHER = (
    "---\nname: researcher\ninputs:\n  - {name: task, kind: string}\n---\nuser:\n{{task}}\n"
)


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.S)
    assert found
    return found[1]


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "researcher.prompty").write_text(RESEARCHER)
    file = tmp_path / "assistant.prompty"
    file.write_text(block("yaml"))
    return file


def test_the_agent_has_the_usual_settings(agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_API_URL", "https://models.invalid/v1")
    monkeypatch.setenv("MODEL_API_KEY", "k")
    options = options_for(load(agent))
    assert (options.max_iterations, options.tool_protocol, options.progress) == (5, "json", True)
    assert (options.on_limit, options.limit_message) == (
        "partial",
        "Reached maximum reasoning steps ({max_iterations})",
    )


async def test_the_memory_of_the_mocked_agent(
    agent: Path, client: Client, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mocks = re.search(r"DEBUG_MOCK_RESPONSES='(.*)'", block("console"))
    assert mocks
    monkeypatch.setenv("DEBUG_MOCK_RESPONSES", mocks[1])
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    async with create_worker(client, tools={"echo": lambda text: text}, mock=True):
        names = await executed(block("python"))
    events: list[MemoryEvent] = names["events"]
    said = re.search(r"# (.*)$", block("python"), re.M)
    assert said
    assert ", ".join(event.event_type for event in events) == said[1]
    assert events[-1].content == block("console").splitlines()[-1]


def test_every_event_and_call_is_on_the_page() -> None:
    table = PAGE[PAGE.index("| event | content | when |") :].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.M) == list(EVENT_TYPES)
    calls = {name for name in vars(NullMemory) if not name.startswith("_")}
    assert calls <= set(vars(KaosMemory))
    assert all(f"`{name}`" in PAGE for name in calls)


async def executed(code: str) -> JsonObject:
    """The names that the code leaves behind; it may await."""
    names: JsonObject = {}
    compiled = compile(code, "docs/guides/kaos.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert compiled.co_flags & CO_COROUTINE
    await eval(compiled, names)
    return names
