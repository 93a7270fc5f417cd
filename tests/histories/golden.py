"""A golden history, and what its replay tells."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel
from temporalio.client import WorkflowHistory

from perdure.client.reading.log import replay
from perdure.json_types import JsonObject
from perdure.payloads.converter import perdure_data_converter
from perdure.protocol.names import SESSION_WORKFLOW

FOLDER = Path(__file__).parent / "recorded"
"""Has a folder for each release line, such as `0.1`, with the histories that it recorded."""


class Golden(BaseModel):
    """One link of a run or a session, as it was recorded."""

    history: JsonObject
    """As `WorkflowHistory.from_json` takes it."""
    events: list[str]
    """The events that its replay gave when it was recorded, one line each."""


async def outline(history: JsonObject) -> list[str]:
    """The events that the replay of a history gives, without their data; a session's gives none."""
    if _started(history)["workflowType"]["name"] == SESSION_WORKFLOW:
        return []
    id = id_of(history)
    recorded = WorkflowHistory.from_json(id, history)
    run = await replay(id, recorded.events, perdure_data_converter)
    lines: list[str] = []
    after = 0
    while (page := run.events(after)).events:
        after = page.events[-1].seq
        lines += [
            f"{event.seq} {event.iteration} {event.type} {event.call_id or ''}".strip()
            for event in page.events
        ]
    return lines


def id_of(history: JsonObject) -> str:
    """The workflow id of the recorded run, from which those of its children are derived."""
    id: str = _started(history)["workflowId"]
    return id


def _started(history: JsonObject) -> JsonObject:
    started: JsonObject = history["events"][0]["workflowExecutionStartedEventAttributes"]
    return started
