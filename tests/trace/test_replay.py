"""A reader's replay is whole, or it says that it is not: a machine that has no time for a while
loses no event.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import WorkflowHistory
from temporalio.converter import PayloadConverter
from temporalio.workflow import NondeterminismError

from perdure.payloads.converter import SharedPayloadConverter, perdure_data_converter
from perdure.trace.replay import replay_link

from ..histories.golden import FOLDER, Golden, id_of

TOO_LONG = 2.2
"""Seconds; Temporal's SDK ends a replay in which one step takes more than 2."""


class StallingConverter(PayloadConverter):
    """Takes too long for what it reads, as often as `stalls` says: as where other processes have
    the processors.
    """

    stalls: ClassVar[int]

    def __init__(self) -> None:
        self._real = SharedPayloadConverter()

    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        return self._real.to_payloads(values)

    def from_payloads(
        self, payloads: Sequence[Payload], type_hints: list[type] | None = None
    ) -> list[Any]:
        if StallingConverter.stalls > 0:
            StallingConverter.stalls -= 1
            time.sleep(TOO_LONG)
        return self._real.from_payloads(payloads, type_hints)


async def replayed(stalls: int) -> list[str]:
    """The types of the events of a recorded run, after a replay on a machine that stalls."""
    StallingConverter.stalls = stalls
    history = Golden.model_validate_json((FOLDER / "0.1" / "tools-1.json").read_bytes()).history
    events = WorkflowHistory.from_json(id_of(history), history).events
    converter = replace(perdure_data_converter, payload_converter_class=StallingConverter)
    run = (await replay_link(id_of(history), events, converter)).run
    return [event.type for event in run.state.events.page(0).events]


async def test_a_replay_that_had_no_time_is_begun_anew() -> None:
    whole = await replayed(0)
    assert whole[-1] == "done"
    assert await replayed(1) == whole


async def test_a_value_that_nobody_can_read_hides_no_other_version() -> None:
    history = Golden.model_validate_json((FOLDER / "0.1" / "tools-1.json").read_bytes()).history
    events = WorkflowHistory.from_json(id_of(history), history).events
    scheduled = next(
        event for event in events if event.HasField("activity_task_scheduled_event_attributes")
    )
    scheduled.activity_task_scheduled_event_attributes.activity_type.name = "another"
    strange = Payload(metadata={"encoding": b"of/strangers"}, data=b"?")
    events[0].workflow_execution_started_event_attributes.memo.fields["strange"].CopyFrom(strange)
    with pytest.raises(NondeterminismError):
        await replay_link(id_of(history), events, perdure_data_converter)
