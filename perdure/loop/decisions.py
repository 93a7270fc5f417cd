"""The decisions of people about the tool calls of a run, and their effect on a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..event_data import EventType, LoggedData, PermissionCompletedData, PermissionRequestedData
from ..messages import Answered, Needed, ToolResult
from ..tool_calls import (
    Approval,
    Asked,
    AskedQuestion,
    Decided,
    ToolRequest,
    ToolSpec,
    read_question,
)
from .effects import Effects
from .state import LoopState


class Immediate(NamedTuple):
    """A call that is answered without an execution."""

    result: ToolResult


class Admitted(NamedTuple):
    """A call that may be executed, after a person's approval if it needs one."""

    request: ToolRequest
    ask: str | None = None
    """The reason to ask a person, "" if none is known; None for a call that needs no approval."""
    is_edited: bool = False
    """Whether a person changed the model's arguments."""


def refusal(text: str, kind: str) -> Immediate:
    """Return the refusal of a call that can't be executed; the model reads the reason."""
    return Immediate(ToolResult.failure(text, kind=kind))


@dataclass
class HumanDecisions:
    """Asks people about the tool calls of a run. The methods wait, and raise `Cancelled` as effects
    do.
    """

    effects: Effects
    state: LoopState

    async def approval(self, call: Admitted, spec: ToolSpec) -> Immediate | Admitted:
        """Wait until the call is approved or denied."""
        approval = await self._ask(
            call.request, spec, Asked(call.ask or None, spec.approval_timeout)
        )
        if not approval.approved:
            return Immediate(
                ToolResult.denial(f"Tool denied: {approval.reason or 'no reason was given'}")
            )
        if approval.arguments is None or approval.arguments == call.request.arguments:
            return call._replace(ask=None)
        return Admitted(
            call.request.model_copy(update={"arguments": approval.arguments}), is_edited=True
        )

    async def answer(self, request: ToolRequest, spec: ToolSpec, reason: str | None) -> Immediate:
        """Wait for the answer to the question that the call's arguments ask."""
        question = read_question(request.arguments)
        if isinstance(question, str):
            text = f"Error: Invalid arguments for tool '{request.name}': {question}"
            return refusal(text, "invalid_arguments")
        self.state.tool_calls += 1
        asked = Asked(reason or None, spec.approval_timeout, question=question)
        decision = await self._ask(request, spec, asked)
        if decision.approved and decision.answer is not None:
            return Immediate(ToolResult.of_text(decision.answer))
        return Immediate(
            ToolResult.denial(f"Not answered: {decision.reason or 'no reason was given'}")
        )

    async def continuation(
        self, request: ToolRequest, spec: ToolSpec, needed: Needed
    ) -> ToolRequest:
        """Wait for the answer that the tool needs, and return the call that it goes on with."""
        question = AskedQuestion(
            question=needed.question, choices=needed.choices, allow_other=needed.allow_other
        )
        asked = Asked(None, spec.approval_timeout, question=question)
        shown = request.model_copy(update={"arguments": question.model_dump(exclude_defaults=True)})
        decision = await self._ask(shown, spec, asked)
        answered = Answered(text=decision.answer if decision.approved else None, state=needed.state)
        return request.model_copy(update={"answered": answered})

    async def _ask(self, request: ToolRequest, spec: ToolSpec, asked: Asked) -> Approval:
        asked = asked.since(self.effects.now())
        question = asked.question
        requested = PermissionRequestedData(
            name=request.name,
            arguments=request.arguments,
            kind="question" if question else "approval",
            reason=asked.reason,
            deadline=asked.deadline,
            choices=question.choices if question else [],
            description=spec.description,
            schema=spec.parameters,
            digest=request.digest,
        )
        if spec.approvers is not None:
            requested["approvers"] = spec.approvers.as_json
        self._emit("permission_requested", requested, request)
        approval = await self.effects.approve(request, asked)
        is_edited = approval.approved and approval.arguments != request.arguments
        completed = PermissionCompletedData(
            name=request.name,
            approved=approval.approved,
            by=approval.by,
            reason=approval.reason,
            arguments=approval.arguments if is_edited else None,
            answer=approval.answer,
            digest=request.digest,
        )
        if isinstance(approval, Decided) and approval.approvers:
            completed["vouched"] = [each.model_dump(mode="json") for each in approval.approvers]
        self._emit("permission_completed", completed, request)
        return approval

    def _emit(self, type: EventType, data: LoggedData, request: ToolRequest) -> None:
        self.effects.emit(type, self.state.iteration, data, call_id=request.call_id)
