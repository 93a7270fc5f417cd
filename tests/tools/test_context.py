"""What a tool knows and says in a run within one process; and the example of docs/guides/tools.md."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import RunCancelled, ToolContext
from perdure.json_types import JsonObject
from perdure.testing import InProcessRun, asks, call, run_in_process, says
from perdure.tool_calls import ToolProgress
from perdure.tools import clear_tools

from ..support.documents import ROOT

PAGE = ROOT / "docs/guides/tools.md"


@pytest.fixture(autouse=True)
def _no_tools() -> Iterator[None]:
    yield
    clear_tools()


def agent(tmp_path: Path, name: str = "work") -> Path:
    path = tmp_path / "a.prompty"
    path.write_text(
        f"---\nname: a\nmodel: {{id: m}}\ntools:\n  - {{name: {name}, kind: "
        f"function}}\n---\nuser:\nHi.\n"
    )
    return path


def test_the_example_of_the_page(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "perdure.tools")
    example: JsonObject = {}
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)[0]
    exec(compile(code, str(PAGE), "exec"), example)
    events: list[tuple[str, JsonObject]] = []
    result = run_in_process(
        agent(tmp_path, "check_orders"),
        model=[asks(call("check_orders", "c1", customer="ann")), says("all paid")],
        tools=[example["check_orders"]],
        resources={example["Shop"]: example["open_shop"]},
        on_event=lambda type, data: events.append((type, data)),
    )
    assert result.messages[-2].text == '{"ann-1":"paid","ann-2":"paid","ann-3":"paid"}'
    told = [data for type, data in events if type == "tool_progress"]
    assert told[-1] == {
        "name": "check_orders",
        "callId": "c1",
        "done": 2,
        "total": 3,
        "text": "order ann-3",
    }
    types = [type for type, _ in events]
    assert (
        types.index("tool_call_start") < types.index("tool_progress") < types.index("tool_result")
    )
    [record] = [each for each in caplog.records if each.getMessage() == "checked 3 orders"]
    assert (record.tool, record.call) == ("check_orders", "c1")  # type: ignore[attr-defined]
    assert "the shop is closed" in capsys.readouterr().out


async def test_a_tool_learns_that_its_run_was_cancelled(tmp_path: Path) -> None:
    begun = threading.Event()

    async def waits(context: ToolContext) -> str:
        begun.set()
        while not context.cancelled:
            await asyncio.sleep(0.01)
        return "left in order"

    run = InProcessRun(agent(tmp_path), model=[asks(call("work"))], tools={"work": waits})
    running = asyncio.create_task(run.run())
    await asyncio.to_thread(begun.wait)
    run.cancel()
    with pytest.raises(RunCancelled) as error:
        await running
    assert error.value.messages[-1].text == "left in order"


def test_what_is_told_is_checked_and_bounded() -> None:
    told: list[ToolProgress] = []
    context = ToolContext(tool="work", call_id="c", report=told.append)
    context.progress(1, 2, "word " * 1000)
    assert len(told[0].text.encode()) <= 1000
    for wrong in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="expected a finite number"):
            context.progress(wrong)
    with pytest.raises(TypeError):
        context.progress(None)  # type: ignore[arg-type]
    assert len(told) == 1
    assert not context.cancelled


def test_the_log_has_no_secret(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "a-very-secret-value-of-mine")
    logger = ToolContext(run_id="r", tool="work", call_id="c", attempt=2).logger
    logger.warning(
        "with %s", "a-very-secret-value-of-mine", extra={"url": "a-very-secret-value-of-mine"}
    )
    [record] = caplog.records
    assert record.getMessage() == "with ${env:SHOP_API_KEY}"
    about = {name: getattr(record, name) for name in ("run", "tool", "call", "attempt", "url")}
    assert about == {
        "run": "r",
        "tool": "work",
        "call": "c",
        "attempt": 2,
        "url": "${env:SHOP_API_KEY}",
    }
