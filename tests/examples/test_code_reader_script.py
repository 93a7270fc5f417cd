"""The code reader's scripted conversation: real tools, and an answer that is true of this
repository.
"""

from __future__ import annotations

import ast
import json
import re
import runpy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from perdure.agents import Agent
from perdure.json_types import JsonObject
from perdure.messages import Message, ToolCall
from perdure.prompty.load import load
from perdure.providers.registry import format_tool_messages, process_response, to_request
from perdure.testing import ScriptedModel
from perdure.tools import clear_tools
from perdure.tools.dispatch import ToolBox
from perdure.tools.handlers import load_tools

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples" / "code_reader"
ROOT = REPOSITORY / "perdure"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(runpy.run_path(str(EXAMPLE / "scripted.py"))["scripted_reply"]) as model:
        yield model
    clear_tools()


async def converse(agent: Agent, model: ScriptedModel, root: Path) -> tuple[str, list[Message]]:
    """Plays the whole conversation through the provider's SDK, with the real tools; gives answer
    and messages.
    """
    box = ToolBox(load_tools(str(EXAMPLE / "tools.py")))
    messages = [Message.system(agent.instructions), Message.user("Which errors are there?")]
    for _ in range(10):
        request = to_request(agent, messages, provider="openai", api_type="chat")
        response = await ask(model, request)
        said = process_response(agent, response, provider="openai", api_type="chat")
        if isinstance(said, str):
            return said, messages
        calls: list[ToolCall] = said
        inputs = {"root": str(root)}
        results = [
            await box.execute(agent, call.name, json.loads(call.arguments), inputs)
            for call in calls
        ]
        assert [result.text for result in results if result.status != "success"] == []
        messages += format_tool_messages(
            agent, response, calls, results, provider="openai", api_type="chat"
        )
    raise AssertionError("the conversation does not end")


async def ask(model: ScriptedModel, request: JsonObject) -> Any:
    async with openai.AsyncOpenAI(
        base_url=model.openai_endpoint, api_key="k", max_retries=0
    ) as client:
        return (await client.chat.completions.create(**request)).to_dict()


async def test_it_takes_five_model_calls_with_parallel_rounds(model: ScriptedModel) -> None:
    answer, messages = await converse(load(EXAMPLE / "code_reader.prompty"), model, ROOT)
    rounds = [len(message.tool_calls) for message in messages if message.role == "assistant"]
    assert rounds == [2, 2, 1, 1]
    assert [request.step for request in model.requests] == [0, 1, 2, 3, 4]
    assert '"root":' not in json.dumps(model.requests[0].body["tools"])
    assert answer.endswith("a real model answers the question that you ask.)")


async def test_the_answer_is_true_of_this_repository(model: ScriptedModel) -> None:
    answer, _ = await converse(load(EXAMPLE / "code_reader.prompty"), model, ROOT)
    files = [path for path in ROOT.rglob("*.py") if "__pycache__" not in path.parts]
    raised = Counter(name for file in files for name in raised_in(file))
    assert f"Among {len(files)} files (*.py)" in answer
    claims = re.findall(
        r"^- (\w+) \(([^:]+):(\d+)\): (?:raised (once|\d+ times), first at ([^:]+):(\d+)|never)",
        answer,
        re.M,
    )
    assert len(claims) >= 10
    for name, path, line, times, raised_path, raised_line in claims:
        assert line_of(path, line).startswith(f"class {name}(")
        if times:
            assert line_of(raised_path, raised_line).strip().startswith(f"raise {name}")
        assert times == {0: "", 1: "once"}.get(raised[name], f"{raised[name]} times")
    quoted = re.findall(r"^     +(\d+)  (.*)$", answer, re.M)
    assert len(quoted) > 5
    most_raised_path = claims[0][4]
    assert all(line_of(most_raised_path, number) == text for number, text in quoted)


def line_of(path: str, line: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8").splitlines()[int(line) - 1]


def raised_in(file: Path) -> Iterator[str]:
    """The class that each `raise` statement of the file names, as Python's own parser sees it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        what = node.exc if isinstance(node, ast.Raise) else None
        what = what.func if isinstance(what, ast.Call) else what
        if isinstance(what, ast.Name):
            yield what.id
