"""A golden history, and what its replay tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel
from temporalio.client import WorkflowHistory

from perdure.client.reading.replay import replay
from perdure.payloads.converter import perdure_data_converter

FOLDER = Path(__file__).parent / "recorded"


class Golden(BaseModel):
    """One link of a run, as it was recorded."""

    history: dict[str, Any]
    """As `WorkflowHistory.from_json` takes it."""
    events: list[str]
    """The events that its replay gave when it was recorded, one line each."""


async def outline(history: dict[str, Any]) -> list[str]:
    """The events that the replay of a history gives, without their data."""
    recorded = WorkflowHistory.from_json("golden", history)
    run = await replay("golden", recorded.events, perdure_data_converter)
    lines: list[str] = []
    after = 0
    while (page := run.events(after)).events:
        after = page.events[-1].seq
        lines += [f"{event.seq} {event.iteration} {event.type} {event.call_id or ''}".strip() for event in page.events]
    return lines
