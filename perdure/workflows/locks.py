"""Stops a run whose tools differ from their lock, or asks a person first."""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from ..loop.decisions import Admitted, HumanDecisions, Immediate
from ..loop.effects import Cancelled
from ..tool_calls import ToolRequest, ToolSpec
from .effects import TemporalEffects
from .run_state import RunState

LOCK_ERROR = "lock"
"""Error type, and the `kind` of the run's failure."""
ASKED = "lock"
"""The tool name and the call id of the request to a person."""


async def require_as_locked(state: RunState) -> None:
    """Return once the tools match their lock, or a person accepts the difference.

    Called before the first model call. Raises an `ApplicationError` that shows the difference.
    """
    changes = state.inventory.lock_changes
    if not changes:
        return
    text = "\n".join(["The tools differ from their lock:", *changes])
    advice = "Look at it; `perdure lock --update AGENT.prompty` takes it over"
    if not state.inventory.asks_about_changes:
        raise ApplicationError(f"{text}\n{advice}", type=LOCK_ERROR, non_retryable=True)
    workflow.logger.warning("the run waits for a person: %s", text)
    request = ToolRequest(
        call_id=ASKED, name=ASKED, arguments={"changes": changes}, iteration=0, index=0
    )

    async def no_checkpoint() -> None:
        """Do nothing: no iteration has begun."""

    decisions = HumanDecisions(TemporalEffects(state, no_checkpoint), state.loop)
    why = f"the tools differ from their lock. {advice}"
    try:
        answer = await decisions.approval(Admitted(request, why), ToolSpec(name=ASKED))
    except Cancelled:
        return  # The loop ends the run.
    if isinstance(answer, Immediate):
        raise ApplicationError(f"{text}\n{answer.result.text}", type=LOCK_ERROR, non_retryable=True)
