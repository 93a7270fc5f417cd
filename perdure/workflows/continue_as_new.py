"""Carries a run over into a new history: what survives continue-as-new, and whether it fits."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from temporalio import workflow

from ..conversation import Conversation
from ..errors import PayloadTooLargeError
from ..loop.state import LoopState
from ..message_sizes import batches
from ..payloads.limits import MAX_PAYLOAD_BYTES
from ..protocol.run import Carried, CarriedConversation, Inventory, RunInput
from .inbox import Inbox
from .recording import CERTAIN_BYTES, PIECE_BYTES, encoded_bytes, record, uncompressed_bytes

MIB = 1024 * 1024
MAX_START_BYTES = 24 * MIB
"""Half of what a history may hold: a conversation that takes more at its very start can't go on."""
INLINE_BYTES = 64 * 1024
"""A conversation up to this size travels in the next link's input, which both histories record; a larger one is
loaded from the old history, and recorded once."""
MAX_STEERING_CHARS = 64 * 1024
"""More than this is first read into the conversation, which can be carried in pieces."""


@dataclass
class ContinueAsNew:
    """What a link hands to the next one."""

    input: RunInput
    conversation: Conversation
    state: LoopState
    inventory: Inventory
    inbox: Inbox
    last_seq: int

    async def next_link(self) -> RunInput | None:
        """The input of the next link, certain to fit; None when it is better to go on here for an iteration.

        Raises `PayloadTooLargeError`: sent all the same, the input would make this workflow task fail for ever.
        """
        if sum(map(len, self.inbox.steering)) > MAX_STEERING_CHARS:
            return None
        is_large = self.conversation.recorded_bytes > INLINE_BYTES
        return await self._fitting(await self._record_in_pieces() if is_large else None)

    async def _fitting(self, in_pieces: CarriedConversation | None) -> RunInput | None:
        next_input = self._next_input(in_pieces)
        if uncompressed_bytes(next_input) <= CERTAIN_BYTES:
            return next_input
        waiting = len(self.inbox.steering)
        size = await encoded_bytes(next_input)
        if size <= MAX_PAYLOAD_BYTES:
            return next_input if len(self.inbox.steering) == waiting else None
        if in_pieces is None:
            return await self._fitting(await self._record_in_pieces())
        raise PayloadTooLargeError(
            f"The run can't be continued in a new history: what it has to carry over takes {size} bytes, at most "
            f"{MAX_PAYLOAD_BYTES} are possible, and the largest part is {_largest_part(next_input)}. "
            "Give it less, or configure external storage (PERDURE_STORAGE) for clients and workers"
        )

    def _next_input(self, in_pieces: CarriedConversation | None) -> RunInput:
        previous = self.input.carried
        return RunInput(
            agent=self.input.agent,
            messages=[] if in_pieces else self.conversation.messages,
            inputs=self.input.inputs,
            options=self.input.options,
            carried=Carried(
                loop=self.state,
                inventory=self.inventory,
                version=self.conversation.version,
                digest=self.conversation.digest,
                last_seq=self.last_seq,
                steering=list(self.inbox.steering),
                conversation=in_pieces,
                first_run_id=previous.first_run_id if previous else workflow.info().run_id,
                links=previous.links + 1 if previous else 1,
            ),
        )

    async def _record_in_pieces(self) -> CarriedConversation:
        """Make sure that this history holds the whole conversation, for the next link to load it from here."""
        history = workflow.info().get_current_history_size()
        if min(self.conversation.recorded_bytes, history) > MAX_START_BYTES:
            raise PayloadTooLargeError(
                f"The conversation is too large to be carried over: {self.conversation.recorded_bytes} bytes, at most "
                f"{MAX_START_BYTES} are possible. Set RunOptions.context_budget to keep it smaller, or configure "
                "external storage (PERDURE_STORAGE) for clients and workers"
            )
        await record(self.conversation, all_of_it=True)
        pieces = batches(self.conversation.messages, PIECE_BYTES)
        return CarriedConversation(
            run_id=workflow.info().run_id,
            reference=self.conversation.ref(),
            ends=list(accumulate(map(len, pieces))),
        )


def _largest_part(value: RunInput) -> str:
    """Names the field of the input that takes the most, with its size before compression."""
    assert value.carried is not None
    parts = {
        "the agent": value.agent,
        "the inputs that bindings refer to": value.inputs,
        "the state of the loop": value.carried.loop,
        "the pending steering messages": value.carried.steering,
    }
    sizes = {name: uncompressed_bytes(part) for name, part in parts.items()}
    name = max(sizes, key=lambda part: sizes[part])
    return f"{name} ({sizes[name]} bytes before compression)"
