"""Reads what a model and tools are telling while their calls are under way, from the heartbeats of the activities."""

from __future__ import annotations

import logging
from typing import NamedTuple

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo

from ...history.chain import Chain
from ...protocol import activities
from ...protocol.activities import StreamedText
from ...tool_calls import ToolProgress, progress_of

logger = logging.getLogger("perdure")

_TOOLS = (activities.TOOL_PREFIX, activities.RUN_TOOL)


class Speech(NamedTuple):
    """What one attempt of a model call has said so far."""

    call: str
    """Names the attempt within its link: the activity's id, and which of the activity's attempts has said it."""
    said: StreamedText


class Heard(NamedTuple):
    """What is being told in a link."""

    speech: Speech | None = None
    """None when no model call is under way, or none that has spoken."""
    progress: tuple[ToolProgress, ...] = ()
    """Of the tool calls under way that have told it."""


async def listen(chain: Chain, run_id: str) -> Heard:
    """What is being told in this link. Raises `RPCError` when the server can't be asked."""
    pending = (await chain.handle(run_id).describe()).raw_description.pending_activities
    telling = list(filter(_is_telling, pending))
    speaking = next((each for each in telling if each.activity_type.name == activities.CALL_MODEL), None)
    working = [each for each in telling if each.activity_type.name.startswith(_TOOLS)]
    told = [await _progress(chain, each) for each in working]
    return Heard(await _speech(chain, speaking) if speaking else None, tuple(filter(None, told)))


async def _speech(chain: Chain, speaking: PendingActivityInfo) -> Speech:
    (said,) = await chain.client.data_converter.decode(list(speaking.heartbeat_details.payloads), [StreamedText])
    return Speech(f"{speaking.activity_id}-{said.attempt}", said)


async def _progress(chain: Chain, working: PendingActivityInfo) -> ToolProgress | None:
    try:
        (told,) = await chain.client.data_converter.decode([working.heartbeat_details.payloads[-1]])
    except Exception as error:
        # The tool's own details, in whatever form.
        logger.debug("what a tool tells can't be read: %r", error)
        return None
    return progress_of(told)


def _is_telling(pending: PendingActivityInfo) -> bool:
    """Whether it has told something and is not between two attempts."""
    is_started = pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
    return is_started and bool(pending.heartbeat_details.payloads)
