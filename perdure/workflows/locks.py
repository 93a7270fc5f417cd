"""Stops a run whose tools offer something else than their lock says, or asks a person first."""

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
"""The name and the call's id of what waits for a person."""


async def require_as_locked(state: RunState) -> None:
    """Return when the tools offer what is locked, or a person lets the run go on with what they offer now.

    Raises the `ApplicationError` that shows the difference. It is called before the first model call.
    """
    changes = state.inventory.lock_changes
    if not changes:
        return
    text = "\n".join(["The tools differ from their lock:", *changes])
    advice = "Look at it; `perdure lock --update AGENT.prompty` takes it over"
    if not state.inventory.asks_about_changes:
        raise ApplicationError(f"{text}\n{advice}", type=LOCK_ERROR, non_retryable=True)
    workflow.logger.warning("the run waits for a person: %s", text)
    request = ToolRequest(call_id=ASKED, name=ASKED, arguments={"changes": changes}, iteration=0, index=0)

    async def no_checkpoint() -> None:
        """Nothing: no iteration has begun."""

    decisions = HumanDecisions(TemporalEffects(state, no_checkpoint), state.loop)
    why = f"the tools differ from their lock. {advice}"
    try:
        answer = await decisions.approval(Admitted(request, why), ToolSpec(name=ASKED))
    except Cancelled:
        return  # The loop ends the run.
    if isinstance(answer, Immediate):
        raise ApplicationError(f"{text}\n{answer.result.text}", type=LOCK_ERROR, non_retryable=True)
