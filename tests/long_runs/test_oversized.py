"""What is too large for Temporal is noticed before it is sent, and said with its name."""

from __future__ import annotations

import pytest
from temporalio.api.enums.v1 import EventType

from perdure.agents import Agent
from perdure.client import RunHandle
from perdure.errors import PayloadTooLargeError
from perdure.protocol.names import STEER
from perdure.testing import ScriptedModel, ScriptedReply, asks, call, says
from perdure.testing.script import ScriptedRequest
from perdure.tools import tool

from ..support.agents import QUESTION, Scripted, scripted_agent
from ..support.comparison import links
from ..support.gates import GatedReplies
from ..support.stage import Stage
from .test_large_conversations import noise


@tool
def nod(text: str = "") -> str:
    """Nod."""
    return "nodded"


def wordy_agent(model: ScriptedModel, description_chars: int) -> Agent:
    """An agent that takes much of every link's input."""
    return scripted_agent(model, ["nod"], description=noise(description_chars, "description"))


def chatty_round(number: int, chars: int) -> ScriptedReply:
    """A round in which the model says so many characters beside its tool call."""
    return asks(call("nod", f"c{number}"), text=noise(chars, number))


async def failed_tasks(stage: Stage, run: RunHandle) -> list[str]:
    """Why decisions failed, in all links of the run."""
    return [
        str(event.workflow_task_failed_event_attributes.cause)
        for link in await links(stage.client, run.id)
        for event in link.history
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    ]


async def test_a_conversation_that_does_not_fit_beside_the_agent_goes_in_pieces(
    stage: Stage, scripted: Scripted
) -> None:
    # Trimmed, the conversation never grows beyond what one payload holds; the agent leaves less
    # than that.
    def script(request: ScriptedRequest) -> ScriptedReply:
        number = int(request.messages[-1].metadata.get("tool_call_id", "c0")[1:])
        return chatty_round(number + 1, 100_000) if number < 20 else says("done")

    async with stage.worker([nod]):
        run = await stage.start(
            wordy_agent(scripted(script), 2_400_000), max_iterations=30, context_budget=480_000
        )
        result = await run.result()
    assert result.output == "done"
    chain = await links(stage.client, run.id)
    assert len(chain) >= 2
    carried = chain[1].input.carried
    assert carried is not None
    assert carried.conversation is not None
    assert carried.conversation.reference.operations == []
    assert await failed_tasks(stage, run) == []


async def test_a_state_that_does_not_fit_ends_the_run_with_a_typed_failure(
    stage: Stage, scripted: Scripted
) -> None:
    model = scripted([*[chatty_round(number, 300_000) for number in range(9)], says("done")])
    async with stage.worker([nod]):
        # It just fits at the start, and no longer with what the model said last.
        run = await stage.start(wordy_agent(model, 2_661_000))
        with pytest.raises(PayloadTooLargeError) as raised:
            await run.result()
    assert raised.value.kind == "payload_too_large"
    assert "the largest part is the agent (2661" in str(raised.value)
    assert raised.value.messages[:2] == QUESTION
    assert len(raised.value.messages) == 2 + raised.value.iterations * 2
    events = await run.events()
    assert (events[-1].type, events[-1].data["kind"]) == ("failed", "payload_too_large")
    assert (await run.status()).status == "failed"
    # The input was never sent: Temporal would have failed the decision, and asked for it again, for
    # ever.
    assert await failed_tasks(stage, run) == []


async def test_a_steering_message_is_not_sent_when_it_does_not_fit(
    stage: Stage, scripted: Scripted
) -> None:
    gate = GatedReplies(says("done"))
    async with stage.worker():
        run = await stage.start(scripted_agent(scripted(gate)))
        with pytest.raises(PayloadTooLargeError, match="The steering message is too large"):
            await run.steer(noise(3_000_000, "steering"))
        with pytest.raises(PayloadTooLargeError, match="The approval is too large"):
            await run.approve("c", arguments={"text": noise(3_000_000, "arguments")})
        gate.open.set()
        assert (await run.result()).output == "done"


async def test_a_steering_message_that_just_fits_a_signal_but_nothing_else(
    stage: Stage, scripted: Scripted
) -> None:
    gate = GatedReplies(says("wait"), says("done"))
    async with stage.worker():
        run = await stage.start(scripted_agent(scripted(gate)))
        # Another client may send what fits into a signal; recorded once more, in an activity's
        # input, it is too large.
        await stage.client.get_workflow_handle(run.id).signal(
            STEER, {"text": noise(2_720_000, "steering")}
        )
        gate.open.set()
        with pytest.raises(
            PayloadTooLargeError, match="A message of the conversation is too large"
        ) as raised:
            await run.result()
    assert len(raised.value.messages[-1].text) == 2_720_000
    assert await failed_tasks(stage, run) == []
