"""The executions of a run's tool calls, for the gateway's own API."""

from __future__ import annotations

from ..client.reading.survey import ToolOutcome, survey
from ..history.chain import Chain
from .gateway import MAX_SURVEYED
from .operations import HttpCall
from .own_types import CamelCase


class CallView(CamelCase):
    """A tool call of a run, and how it was executed."""

    iteration: int
    call_id: str
    name: str
    outcome: ToolOutcome
    seconds: float | None = None
    """From the first execution to the end of the last; None without one."""
    attempts: int = 0
    """The number of executions, with retries and those lost with a worker."""
    refusals: int = 0
    """The number of workers that lacked the tool."""
    outcome_unknown: bool = False
    """Whether the call may have taken effect although it has failed."""
    waited: float = 0.0
    """Seconds of waiting for a person."""


async def list_calls(call: HttpCall) -> list[CallView]:
    """The tool calls of a run, and how they were executed, from its history."""
    found = await call.gateway.run(call.identity, call.path["id"])
    state = (found.id, found.described.run_id, found.described.history_length)
    surveys = call.gateway.surveys
    if (calls := surveys.get(state)) is None:
        seen = await survey(Chain(call.gateway.client, found.id, found.first_run_id))
        calls = [
            CallView(iteration=each.iteration, **tool.model_dump(include={*CallView.model_fields}))
            for each in seen.iterations
            for tool in each.tools
        ]
        if len(calls) < MAX_SURVEYED:
            surveys[state] = calls
    return calls
