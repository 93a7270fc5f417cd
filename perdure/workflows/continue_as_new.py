"""Continues a run in a new link, before the history of this one grows too long."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from temporalio import workflow

from ..conversation import batches
from ..errors import PayloadTooLargeError
from ..payloads.failures import MAX_PAYLOAD_BYTES
from ..protocol.run import Carried, CarriedConversation, RunInput
from ..settings.agent_file import options_after_handoff
from .approvers import link_content, passed_on
from .history_size import HistorySize, go_on_in_new_link, is_behind
from .recording import CERTAIN_BYTES, PIECE_BYTES, encoded_bytes, record_all, uncompressed_bytes
from .run_state import RunState

MIB = 1024 * 1024
MAX_START_BYTES = 24 * MIB
"""Half of a history's limit: a link that began with a larger conversation would soon reach it."""
INLINE_BYTES = 64 * 1024
"""A conversation up to this size travels in the next link's input, which both histories hold; a
larger one is loaded from this link's history, and recorded once."""
MAX_STEERING_CHARS = 64 * 1024
"""Longer steering messages are first read into the conversation, which can be loaded in pieces."""


@dataclass
class ContinueAsNew:
    """Temporal's continue-as-new: this link closes, and the run continues in a new one without
    losing anything (§13.7).

    1. Before each iteration, `HistorySize` says whether Temporal suggests it and this link has
       grown enough; or the link has accepted many decisions, which Temporal limits too; or the
       run's workers are versioned, and another version is current now. A cancelled run ends in this
       link.
    2. The workflow waits until all handlers of signals and updates have finished: Temporal drops
       unfinished ones.
    3. If many steering messages wait, the run stays here for an iteration, which reads them into
       the conversation.
    4. A conversation above `INLINE_BYTES` is recorded to its end in this link's history, from which
       the next link loads it in pieces. A smaller one travels in the next link's input.
    5. The next link's input is this link's, with the conversation and `Carried`: the rest of the
       run's state.
    6. The input is measured, because one above Temporal's limit of 2 MB would make the workflow
       task fail for ever. If it does not fit, the conversation is taken out of it as in step 4; if
       it still does not fit, the run fails.
    7. Measuring and recording take time: if a cancellation or a steering message has arrived, the
       run stays here for another iteration, and starts over from step 1.
    8. `workflow.continue_as_new` closes this link. Temporal starts the next one with the input.
    9. In the next link, `AgentRun.__init__` takes its state from `Carried`, and loads the pieces
       before it iterates.
    """

    state: RunState
    loop_version: int
    """The loop version of the next link: that of this worker."""
    history: HistorySize = field(default_factory=HistorySize)
    _to: str = ""
    """The path of the next link's agent, if it differs."""

    def __post_init__(self) -> None:
        self._first = self.state.loop.iterations

    async def when_suggested(self) -> None:
        """Continue in a new link when due, and then never return.

        Raises `PayloadTooLargeError` when the run can continue neither in a new link nor for long
        in this one.
        """
        if not self.state.cancelled and self._is_time():
            await self._go_on()

    async def hand_off(self, path: str) -> None:
        """Continue in a new link as the agent of that path. Raises as `when_suggested` does.

        Returns if the run was cancelled, or has steering messages to read first.
        """
        self._to = path
        await self._go_on()

    async def _go_on(self) -> None:
        await workflow.wait_condition(workflow.all_handlers_finished)
        next_input = await self._next_input()
        if next_input is not None and not self.state.cancelled:
            go_on_in_new_link(next_input, self.state.input.agent if self._to else None)

    def _is_time(self) -> bool:
        suggested = self.history.suggests_continuing(self.state.conversation.recorded_bytes)
        return suggested or self._is_upgrade() or self.state.approvals.are_many

    def _is_upgrade(self) -> bool:
        """Return whether the run moves to another version; each link makes at least one
        iteration.
        """
        return self.state.loop.iterations > self._first and is_behind()

    async def _next_input(self) -> RunInput | None:
        """Return the input of the next link, certain to fit; None when the run has to stay here for
        an iteration.
        """
        if sum(map(len, self.state.steering)) > MAX_STEERING_CHARS:
            return None
        is_large = self.state.conversation.recorded_bytes > INLINE_BYTES
        return await self._fitted_input(await self._record_conversation() if is_large else None)

    async def _fitted_input(self, recorded: CarriedConversation | None) -> RunInput | None:
        next_input = self._input_with(recorded)
        if uncompressed_bytes(next_input) <= CERTAIN_BYTES:
            return next_input
        waiting = len(self.state.steering)
        size = await encoded_bytes(next_input)
        if size <= MAX_PAYLOAD_BYTES:
            return next_input if len(self.state.steering) == waiting else None
        if recorded is None:
            return await self._fitted_input(await self._record_conversation())
        raise PayloadTooLargeError(
            f"The run can't be continued in a new link: the link's input takes {size} bytes, at "
            f"most {MAX_PAYLOAD_BYTES} are possible, and the largest part is "
            f"{_largest_part(next_input)}. Give it less, or configure external storage "
            "(PERDURE_STORAGE) for clients and workers"
        )

    def _input_with(self, recorded: CarriedConversation | None) -> RunInput:
        """Return this link's input with the changes, so that fields unknown to this version are
        passed on.
        """
        messages = [] if recorded else self.state.conversation.messages
        by = passed_on(self.state.requests, workflow.info().workflow_id, link_content())
        changed = {
            "messages": messages,
            "carried": self._carried_state(recorded),
            "requested_by": by,
            "loop_version": self.loop_version,
        }
        if self._to:
            changed |= self._as_agent(self._to)
        return self.state.input.model_copy(update=changed)

    def _as_agent(self, path: str) -> dict[str, Any]:
        input = self.state.input
        options = options_after_handoff(input.options, input.agent, input.agents[path], input.given)
        return {"agent": input.agents[path], "handed_to": path, "options": options}

    def _carried_state(self, recorded: CarriedConversation | None) -> Carried:
        previous = self.state.input.carried
        carried = Carried(
            loop=self.state.loop,
            inventory=self.state.inventory,
            version=self.state.conversation.version,
            digest=self.state.conversation.digest,
            last_seq=self.state.events.last_seq,
            steering=list(self.state.steering),
            steered=self.state.steered,
            decided=self.state.approvals.decided,
            completed=self.state.awaited.completed,
            push=list(self.state.push.values()),
            conversation=recorded,
            first_run_id=previous.first_run_id if previous else workflow.info().run_id,
            links=previous.links + 1 if previous else 1,
            is_upgrade=self._is_upgrade() or bool(self._to),
            is_handoff=bool(self._to),
        )
        return carried.model_copy(update=previous.model_extra) if previous else carried

    async def _record_conversation(self) -> CarriedConversation:
        """Record the whole conversation in this link's history, and return where its pieces end."""
        size, history = (
            self.state.conversation.recorded_bytes,
            workflow.info().get_current_history_size(),
        )
        if min(size, history) > MAX_START_BYTES:
            raise PayloadTooLargeError(
                f"The conversation is too large to be continued in a new link: {size} bytes, at "
                f"most {MAX_START_BYTES} are possible. Set RunOptions.context_budget to keep it "
                "smaller, or configure external storage (PERDURE_STORAGE) for clients and workers"
            )
        await record_all(self.state.conversation)
        pieces = batches(self.state.conversation.messages, PIECE_BYTES)
        return CarriedConversation(
            run_id=workflow.info().run_id,
            reference=self.state.conversation.ref(),
            ends=list(accumulate(map(len, pieces))),
        )


def _largest_part(value: RunInput) -> str:
    """Return the name of the input's largest field, with its size before compression."""
    assert value.carried is not None
    parts = {
        "the agent": value.agent,
        "the inputs that bindings refer to": value.inputs,
        "the deps": value.deps,
        "the state of the loop": value.carried.loop,
        "the waiting steering messages": value.carried.steering,
    }
    sizes = {name: uncompressed_bytes(part) for name, part in parts.items()}
    name = max(sizes, key=lambda part: sizes[part])
    return f"{name} ({sizes[name]} bytes before compression)"
