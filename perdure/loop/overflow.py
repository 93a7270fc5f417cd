"""Keeps the conversation as short as the model takes it: by `context_budget`, and by its refusals (§13.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..context_windows import window_of
from ..conversation import Conversation
from ..errors import ModelError
from ..event_data import (
    CompactionCompleteData,
    CompactionFailedData,
    CompactionStartData,
    EventType,
    LoggedData,
    LoggedMessagesUpdatedData,
    StatusData,
)
from ..messages import ModelReply
from ..options import RunOptions
from ..trimming import TrimPlan, plan_trim, summarize_dropped, summary_message
from .effects import Cancelled, Effects
from .state import LoopState

CUTS = 8
"""How often the conversation is cut for one model call."""
AIM = 0.9
"""Of what a model takes, so much is aimed at: figures are of tokens, and sizes of characters."""
UNKNOWN_SHARE = 0.7
"""So much of what was sent is aimed at, where the model does not say how much it takes."""
NEARLY_FULL = 0.8
CUT_AS_FAR = (
    ". The conversation can't be cut further: its system messages and its last {} messages are always sent. Let tools "
    "return less, or use a model that takes more"
)


class ContextWindow:
    """What one run sends of its conversation: the oldest messages give way to a summary of them.

    Args:
        compacted: Whether there is a compactor.
        models: As the loop has them.
    """

    def __init__(
        self,
        effects: Effects,
        conversation: Conversation,
        options: RunOptions,
        state: LoopState,
        emit: Callable[[EventType, LoggedData], None],
        models: Sequence[str],
        *,
        compacted: bool,
    ) -> None:
        self._effects = effects
        self._conversation = conversation
        self._options = options
        self._state = state
        self._emit = emit
        self._models = models or ("",)
        self._compacted = compacted

    @property
    def _model(self) -> str:
        return self._models[self._state.fallback]

    async def trim(self) -> bool:
        """Cut the conversation to `context_budget`, and to what its model is known to take; return whether it was cut.

        Raises Cancelled.
        """
        options, messages, sizes = self._options, self._conversation.messages, self._conversation.sizes
        budgets = [each for each in (options.context_budget, self._state.learned_budgets.get(self._model)) if each]
        if not budgets:
            return False
        plan = plan_trim(messages, sizes, min(budgets), keep=options.keep_messages, trim_to=options.trim_to)
        if plan is None:
            return False
        summary = await self._compactor_summary(plan) if self._compacted else ""
        built_in = summarize_dropped(plan.dropped_messages(messages))
        self._conversation.trim(plan.head, plan.drop, summary_message(summary or built_in))
        self._emit("messages_updated", LoggedMessagesUpdatedData())
        return True

    async def make_room(self, error: ModelError) -> bool:
        """Cut a conversation that its model has refused as too long, by the figures of the refusal if it has any.

        Returns whether it is shorter now. What the model takes is remembered. Raises Cancelled.
        """
        sent = sum(self._conversation.sizes)
        share = AIM * error.limit / error.asked if error.limit and error.asked else UNKNOWN_SHARE
        self._state.learned_budgets[self._model] = budget = max(1, int(sent * share))
        if not await self.trim():
            return False
        text = f"The conversation is too long for {self._model or 'the model'}, it is cut to {budget:,} characters"
        self._emit("status", StatusData(message=text, reason=error.account))
        return sum(self._conversation.sizes) < sent

    def suggest(self, reply: ModelReply) -> None:
        """Say once that the model's context is nearly full, and by which `context_budget` it would not be."""
        used, window = reply.usage.input_tokens, window_of(self._model)
        if self._options.context_budget or self._state.budget_suggested or not window or used < NEARLY_FULL * window:
            return
        self._state.budget_suggested = True
        budget = int(sum(self._conversation.sizes) * AIM * window / used)
        text = (
            f"The conversation takes {used:,} of about {window:,} tokens of {self._model}. "
            f"With context_budget={budget}, in characters, it is trimmed before it is too long"
        )
        self._emit("status", StatusData(message=text))

    async def _compactor_summary(self, plan: TrimPlan) -> str:
        """Compactor's summary; "" when it failed: then the built-in one is used. Raises `Cancelled`."""
        self._emit("compaction_start", CompactionStartData())
        try:
            summary = await self._effects.compact(self._conversation, plan.head, plan.drop)
        except Cancelled:
            raise
        except Exception as error:
            self._emit("compaction_failed", CompactionFailedData(message=str(error)))
            return ""
        messages = self._conversation.messages
        removed = len(plan.dropped_messages(messages))
        self._emit(
            "compaction_complete", CompactionCompleteData(removed=removed, remaining=len(messages) - removed + 1)
        )
        return summary
