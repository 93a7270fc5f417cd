"""Keeps the conversation within the model's context: by `context_budget`, and after its refusals
(§13.3).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..context_windows import window_of
from ..errors import ModelError
from ..event_data import CompactionCompleteData, CompactionFailedData, CompactionStartData
from ..messages import ModelReply
from ..trimming import TrimPlan, plan_trim, summarize_dropped, summary_message
from .effects import Cancelled, Effects
from .state import RunPart

CUTS = 8
"""The most cuts of the conversation for one model call."""
AIM = 0.9
"""The share of the model's context that a cut aims at: its figure is in tokens, and sizes are in
characters."""
UNKNOWN_SHARE = 0.7
"""The share of the refused conversation that a cut aims at, if the model does not give its
limit."""
NEARLY_FULL = 0.8
CUT_AS_FAR = (
    ". The conversation can't be cut further: its system messages and its last {} messages are "
    "always sent. Let tools "
    "return less, or use a model that takes more"
)


@dataclass
class ContextWindow(RunPart[Effects]):
    """The part of its conversation that a run sends: a summary replaces the oldest messages."""

    compacted: bool
    """Whether there is a compactor."""

    async def trim(self) -> bool:
        """Cut the conversation to `context_budget` and to the model's known limit; return whether
        it was cut.

        Raises Cancelled.
        """
        options, learned = self.options, self.state.learned_budgets
        budgets = [each for each in (options.context_budget, learned.get(self.model)) if each]
        if not budgets:
            return False
        messages, sizes = self.conversation.messages, self.conversation.sizes
        plan = plan_trim(
            messages, sizes, min(budgets), keep=options.keep_messages, trim_to=options.trim_to
        )
        if plan is None:
            return False
        summary = await self._compactor_summary(plan) if self.compacted else ""
        built_in = summarize_dropped(plan.dropped_messages(messages))
        self.conversation.trim(plan.head, plan.drop, summary_message(summary or built_in))
        self.emit_messages()
        return True

    async def make_room(self, error: ModelError) -> bool:
        """Cut a conversation that its model refused as too long, by the figures of the refusal if
        it has any.

        Returns whether it is shorter now. The run remembers the model's limit. Raises Cancelled.
        """
        sent = sum(self.conversation.sizes)
        share = AIM * error.limit / error.asked if error.limit and error.asked else UNKNOWN_SHARE
        self.state.learned_budgets[self.model] = budget = max(1, int(sent * share))
        if not await self.trim():
            return False
        text = (
            f"The conversation is too long for {self.model or 'the model'} and is cut to "
            f"{budget:,} characters"
        )
        self.emit_status(text, error.account)
        return sum(self.conversation.sizes) < sent

    def suggest(self, reply: ModelReply) -> None:
        """Report once that the model's context is nearly full, with the `context_budget` that
        avoids it.
        """
        used, window = reply.usage.input_tokens, window_of(self.model)
        if (
            self.options.context_budget
            or self.state.budget_suggested
            or not window
            or used < NEARLY_FULL * window
        ):
            return
        self.state.budget_suggested = True
        budget = int(sum(self.conversation.sizes) * AIM * window / used)
        text = (
            f"The conversation takes {used:,} of about {window:,} tokens of {self.model}. "
            f"With context_budget={budget}, in characters, it is trimmed before it is too long"
        )
        self.emit_status(text)

    async def _compactor_summary(self, plan: TrimPlan) -> str:
        """Compactor's summary; "" if it failed: the built-in one replaces it. Raises
        `Cancelled`.
        """
        self.emit("compaction_start", CompactionStartData())
        try:
            summary = await self.effects.compact(self.conversation, plan.head, plan.drop)
        except Cancelled:
            raise
        except Exception as error:
            self.emit("compaction_failed", CompactionFailedData(message=str(error)))
            return ""
        messages = self.conversation.messages
        removed = len(plan.dropped_messages(messages))
        self.emit(
            "compaction_complete",
            CompactionCompleteData(removed=removed, remaining=len(messages) - removed + 1),
        )
        return summary
