"""Every event has the data that its type declares, and docs/reference/events.md says the same."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from pydantic import TypeAdapter

from perdure.event_data import (
    EVENT_DATA,
    ThinkingData,
    TokenData,
    ToolResultData,
    UsageData,
)
from perdure.events import RunEvent
from perdure.json_types import JsonObject
from perdure.messages import ToolCall, Usage
from perdure.testing import asks, call, says

from .support.documents import ROOT
from .support.loop_stage import Stage, fails
from .support.random_runs import RandomRun, Script, scripts

DOCS = ROOT / "docs/reference/events.md"
ADAPTERS: dict[str, TypeAdapter[Any]] = {
    type: TypeAdapter(kind) for type, kind in EVENT_DATA.items()
}


def check(type: str, data: JsonObject) -> None:
    """Fails unless the data is exactly what the type declares: neither a key more nor one less."""
    assert ADAPTERS[type].validate_python(data, strict=True) == data


def members(kind: Any) -> str:
    """The keys with their types, as the docs write them."""
    declared = [f"{name}: {hint.__forward_arg__}" for name, hint in kind.__annotations__.items()]
    return f"{{{', '.join(sorted(declared))}}}"


def documented() -> dict[str, str]:
    """Event type → its keys, from the table."""
    text = DOCS.read_text(encoding="utf-8").replace(r"\|", "|")
    rows = re.findall(r"^\| `(\w+)` \| `\{(.*?)\}` \|", text, re.MULTILINE)
    return {type: f"{{{', '.join(sorted(filter(None, keys.split(', '))))}}}" for type, keys in rows}


def test_the_docs_list_every_type_and_key() -> None:
    assert documented() == {type: members(kind) for type, kind in EVENT_DATA.items()}
    assert f"`{members(UsageData)}`" in DOCS.read_text(encoding="utf-8")


def test_usage_has_the_fields_of_usage() -> None:
    assert list(UsageData.__annotations__) == list(Usage.model_fields)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scripts())
async def test_any_run_emits_the_data_of_its_types(script: Script) -> None:
    for type, data in (await RandomRun(script).play()).delivered:
        check(type, data)


async def test_a_run_with_every_recorded_type_but_the_last_ones() -> None:
    """So that the types above are known to be met."""
    stage = Stage(
        fails("server"),
        asks(
            call("look"),
            ToolCall(id="2", name="look", arguments="```json\n{}\n```"),
            call("unheard_of"),
        ),
        says("Done", finish_reason="stop"),
        tools={"look": lambda: "seen " * 400},
        stream=True,
        context_budget=1200,
        compactor=lambda dropped: "much was said",
    )
    await stage.play()
    for type, data in stage.events:
        check(type, data)
    assert set(stage.types()) >= {
        "token",
        "tool_call_start",
        "tool_result",
        "status",
        "messages_updated",
        "error",
    }
    assert set(stage.types()) >= {
        "compaction_start",
        "compaction_complete",
        "llm_start",
        "llm_complete",
        "done",
    }


def test_a_reader_gets_the_data_with_its_type() -> None:
    event = RunEvent(
        seq=1, type="tool_result", iteration=1, data={"name": "look", "result": "seen"}
    )
    assert event.data_as(ToolResultData)["result"] == "seen"
    with pytest.raises(
        TypeError, match="the data of a tool_result event is ToolResultData, not TokenData"
    ):
        event.data_as(TokenData)
    with pytest.raises(TypeError):
        event.model_copy(update={"type": "token"}).data_as(ThinkingData)
