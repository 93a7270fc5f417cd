"""docs/guides/agents-in-code.md: what it shows of perdure runs, with a model that is scripted over
HTTP.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest

from perdure.json_types import JsonObject
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, asks, says
from perdure.testing.script import Script

from ..support.agents import Scripted
from ..support.documents import manual

PAGE = manual("guides/agents-in-code.md")
MAX_LINES = 30

Check = Callable[[JsonObject, ScriptedModel], None]
SECTIONS: dict[str, tuple[Script, Check]] = {}
"""Heading → the model's replies, and what is to be seen then."""


def blocks(heading: str, info: str = "python") -> list[str]:
    section = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(rf"^```{info}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def section(heading: str, script: Script) -> Callable[[Check], Check]:
    def note(check: Check) -> Check:
        SECTIONS[heading] = script, check
        return check

    return note


@section("A value for each run", [asks("order", number="A-1"), says("It was sent.")])
def _deps(names: JsonObject, model: ScriptedModel) -> None:
    assert names["answer"] == "It was sent."
    assert model.requests[1].messages[-1].text == "north: sent"


def _refunded(request: ScriptedRequest) -> ScriptedReply:
    replies = [
        asks("transfer_to_billing", reason="a refund"),
        asks("refund", order="A-1"),
        says("It is refunded."),
    ]
    return replies[request.step]


@section("Handoffs", _refunded)
def _handoffs(names: JsonObject, model: ScriptedModel) -> None:
    assert names["answer"] == "It is refunded."
    assert [request.body["model"] for request in model.requests] == [
        "gpt-5",
        *["claude-sonnet-4-5"] * 2,
    ]


@section("Instructions by a function", [says("It was sent.")])
def _instructions(names: JsonObject, model: ScriptedModel) -> None:
    texts = [message.text for message in model.requests[0].messages]
    assert texts[:2] == ["You answer customers.", "The user is Ada, who asks: Where is A-1?"]


def _claims(request: ScriptedRequest) -> ScriptedReply:
    if any("late" in message.text for message in request.messages):
        return says('{"answer": {"text": "When was it sent?"}}', chunk_delay=0.1)
    return says('{"answer": {"euros": %s, "reason": "broken"}}' % ("5" if request.step else '"x"'))


@section("Answers of any type", _claims)
def _answers(names: JsonObject, model: ScriptedModel) -> None:
    assert names["decision"] == names["Refund"](euros=5, reason="broken")
    assert "$.answer.euros: 'x' is not of type 'integer'" in model.requests[1].messages[-1].text
    *parts, last = names["seen"]
    assert last == names["Question"](text="When was it sent?")
    assert all("When was it sent?".startswith(part.get("text", "")) for part in parts)


@section("A function that checks the answer", [says('{"euros": 9}'), says('{"euros": 5}')])
def _validator(names: JsonObject, model: ScriptedModel) -> None:
    assert names["payment"] == names["Payment"](euros=5)
    assert "- pay at most 5 euros\n" in model.requests[1].messages[-1].text


@section("Toolsets", [asks("crm_find", name="Ada"), says("In Oslo.")])
def _toolsets(names: JsonObject, model: ScriptedModel) -> None:
    assert names["answer"] == "In Oslo."
    assert offered(model) == [["crm_find"], ["crm_find"]]
    assert model.requests[1].messages[-1].text == "Ada lives in Oslo"


@section(
    "Tools per step",
    [asks("search", text="bees"), asks("close_ticket", answer="Page 7"), says("Page 7.")],
)
def _tools_per_step(names: JsonObject, model: ScriptedModel) -> None:
    assert names["answer"] == "Page 7."
    assert offered(model) == [["search"], ["search", "close_ticket"], ["search", "close_ticket"]]
    assert model.requests[2].messages[-1].text == "closed: Page 7"


def offered(model: ScriptedModel) -> list[list[str]]:
    return [
        [tool["function"]["name"] for tool in request.body["tools"]] for request in model.requests
    ]


@pytest.mark.parametrize("heading", SECTIONS)
async def test_each_section_runs(
    heading: str,
    scripted: Scripted,
    address: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script, check = SECTIONS[heading]
    model = scripted(script)
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    monkeypatch.setenv("OPENAI_BASE_URL", model.openai_endpoint)
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", model.anthropic_endpoint)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "any")
    names: JsonObject = {"__name__": "shown"}
    await asyncio.to_thread(exec, "\n".join(blocks(heading)), names)
    check(names, model)


def test_each_section_is_short_and_beside_another_framework() -> None:
    headings = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    assert set(headings) == SECTIONS.keys()
    for heading in headings:
        assert sum(len(block.splitlines()) for block in blocks(heading)) <= MAX_LINES, heading
        assert blocks(heading, "python (?:pydantic-ai|openai-agents)"), heading
