"""What came in from outside and was not yet acted upon: cancellation, steering messages, approvals."""

from __future__ import annotations

from ..loop.effects import ToolRequest
from ..run import ApprovalDecision, PendingApproval


class Inbox:
    """Filled by signals at any time, emptied by the loop at its own points."""

    def __init__(self, steering: list[str] | None = None, decisions: list[ApprovalDecision] | None = None) -> None:
        self.cancelled = False
        self.steering: list[str] = list(steering or [])
        self._decisions = {decision.call_id: decision for decision in decisions or []}
        self._asked: dict[str, PendingApproval] = {}

    def drain(self) -> list[str]:
        """All steering messages in the order they came, each once."""
        texts, self.steering = self.steering, []
        return texts

    def ask(self, request: ToolRequest) -> None:
        """Note that a tool call waits for a person."""
        self._asked[request.call_id] = PendingApproval(
            call_id=request.call_id, name=request.name, arguments=request.arguments, iteration=request.iteration
        )

    def decide(self, decision: ApprovalDecision) -> None:
        """Take a person's verdict; the first one on a call counts."""
        self._decisions.setdefault(decision.call_id, decision)

    def decided(self, call_id: str) -> bool:
        return call_id in self._decisions

    def take_decision(self, call_id: str) -> ApprovalDecision | None:
        self._asked.pop(call_id, None)
        return self._decisions.pop(call_id, None)

    @property
    def pending_approvals(self) -> list[PendingApproval]:
        return [asked for call_id, asked in self._asked.items() if call_id not in self._decisions]

    @property
    def decisions(self) -> list[ApprovalDecision]:
        """Verdicts that came before their call asked for them."""
        return list(self._decisions.values())
