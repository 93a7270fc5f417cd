"""Replays a recorded history with the workflow's own code and returns its state, without worker or
server.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from google.protobuf.message import Message
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    Interceptor,
    Replayer,
    StartActivityInput,
    StartLocalActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
    WorkflowReplayResult,
)

from .._version import __version__
from ..json_types import JsonObject
from ..workflows.agent_run import AgentRun
from ..workflows.interceptors import RunObserver
from ..workflows.runner import OwnWorkflowRunner

logger = logging.getLogger("perdure")

DEADLOCK = "[TMPRL1101]"
"""The code with which Temporal's SDK ends a replay because one step took over 2 s, as on an
overloaded machine."""
TRIES = 5
NOT_REPLAYED = (workflow.NondeterminismError, ApplicationError, ValueError)
"""The errors of `replay_link` for a history."""


@dataclass
class Replayed:
    """One link of a run, in its state at the end of its history."""

    run: AgentRun
    info: workflow.Info
    local_inputs: JsonObject = field(default_factory=dict)
    """The arguments of local activities, which no history records, by Temporal's ids."""


async def replay_link(
    workflow_id: str,
    events: Sequence[HistoryEvent],
    converter: DataConverter,
    *,
    namespace: str = "default",
) -> Replayed:
    """Replay the history, which may be that of an open run.

    Raises `NondeterminismError` for a history that this version of perdure would not produce,
    `ApplicationError` for a history with a lost value, and `ValueError` for one that is not an
    agent's run, or that can't be replayed to its end.
    """
    for _ in range(TRIES):
        result, begun, asked = await _replay(workflow_id, events, converter, namespace)
        if DEADLOCK not in str(result.replay_failure):
            break
        logger.info("the replay of %s starts again: %s", workflow_id, result.replay_failure)
    else:
        raise ValueError(
            f"the history of {workflow_id!r} can't be replayed to its end: {result.replay_failure}"
        )
    # Other failures, such as an unreadable value, have a clearer error when that value is read.
    if isinstance(result.replay_failure, workflow.NondeterminismError):
        raise await _loss(events, converter) or result.replay_failure
    if begun.run is None or begun.info is None:
        raise result.replay_failure or ValueError(
            f"the history of {workflow_id!r} is not that of an agent's run"
        )
    return Replayed(begun.run, begun.info, asked.local)


async def _loss(
    events: Sequence[HistoryEvent], converter: DataConverter
) -> ApplicationError | None:
    """Return the error of the first lost value: the run read it, so a replay without it takes
    another path.
    """
    for payload in (each for event in events for each in _payloads(event)):
        try:
            await converter.decode([payload])
        except ApplicationError as error:
            return error
        except Exception:  # Other errors of a converter do not explain the replay.
            continue
    return None


def _payloads(message: Message) -> Iterator[Payload]:
    """Yield a copy of each payload in the message: decoding may change it."""
    if isinstance(message, Payload):
        yield Payload.FromString(message.SerializeToString())
        return
    for field_, value in message.ListFields():
        for part in _messages_of(value) if field_.message_type is not None else ():
            yield from _payloads(part)


def _messages_of(value: Any) -> list[Message]:
    """Return the messages in a field's value: the value itself, or the members of its list or
    map.
    """
    if isinstance(value, Message):
        return [value]
    values = value.values() if isinstance(value, Mapping) else value
    return [each for each in values if isinstance(each, Message)]


async def _replay(
    workflow_id: str, events: Sequence[HistoryEvent], converter: DataConverter, namespace: str
) -> tuple[WorkflowReplayResult, _RunKeeper, _LocalInputs]:
    begun, asked = _RunKeeper(), _LocalInputs()
    replayer = Replayer(
        workflows=[AgentRun],
        interceptors=[begun, asked],
        data_converter=_that_stores_nothing(converter),
        namespace=namespace,
        build_id=__version__,  # Without one, the SDK reads the code of every imported module.
        unsandboxed_workflow_runner=OwnWorkflowRunner(),
    )
    result = await replayer.replay_workflow(
        WorkflowHistory(workflow_id, events), raise_on_replay_failure=False
    )
    return result, begun, asked


def _that_stores_nothing(converter: DataConverter) -> DataConverter:
    """Return a converter for reading: it does not store again the values that a replay produces."""
    if (storage := converter.external_storage) is None:
        return converter
    return replace(
        converter, external_storage=replace(storage, driver_selector=lambda context, payload: None)
    )


class _RunKeeper(RunObserver[AgentRun]):
    """Keeps the workflow object of a replay."""

    run: AgentRun | None = None
    info: workflow.Info | None = None

    def on_begin(self, run: AgentRun, info: workflow.Info) -> None:
        self.run, self.info = run, info
        run.is_being_read = True


class _LocalInputs(Interceptor):
    """Records the arguments of local activities."""

    def __init__(self) -> None:
        self.local: JsonObject = {}

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        asked = self.local

        class Inbound(WorkflowInboundInterceptor):
            def init(self, outbound: WorkflowOutboundInterceptor) -> None:
                super().init(_Outbound(outbound, asked))

        return Inbound


class _Outbound(WorkflowOutboundInterceptor):
    """Records the arguments of local activities by id: Temporal's SDK numbers all activities
    together.
    """

    def __init__(self, next: WorkflowOutboundInterceptor, asked: JsonObject) -> None:
        super().__init__(next)
        self._asked = asked
        self._count = 0

    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
        self._count += 1
        return super().start_activity(input)

    def start_local_activity(self, input: StartLocalActivityInput) -> workflow.ActivityHandle[Any]:
        self._count += 1
        self._asked[input.activity_id or str(self._count)] = input.args[0] if input.args else None
        return super().start_local_activity(input)
