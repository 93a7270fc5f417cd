"""What is sent to a run while it goes on in a new history arrives, once and in order."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable

import pytest

from perdure.client import RunHandle, get_run
from perdure.client.updates import decide
from perdure.errors import (
    LimitExceededError,
    PayloadTooLargeError,
    RunCancelled,
)
from perdure.history.chain import Chain
from perdure.protocol.run import CallApproval
from perdure.testing import ScriptedReply, asks, call, says
from perdure.testing.script import ScriptedRequest
from perdure.tools import tool

from ..support.agents import Scripted, scripted_agent
from ..support.comparison import links
from ..support.stage import Stage
from ..support.waiting import wait_for
from .test_large_conversations import noise


@tool
def shout(text: str = "") -> str:
    """Shout."""
    return text.upper()


EDITED = '[executed with arguments that a person edited: {"text": "something else"}]\n'


def goes_on_for(rounds: int, *, until_told: int = 0) -> Callable[[ScriptedRequest], ScriptedReply]:
    """A model that asks for a tool at least so many times, and until it was told so many
    messages.
    """

    def reply(request: ScriptedRequest) -> ScriptedReply:
        count = Counter(message.role for message in request.messages)
        if count["tool"] >= rounds and count["user"] > until_told:
            return says("done")
        return asks(call("shout", f"call_{count['tool']}", text=str(count["tool"])))

    return reply


async def test_steering_messages_of_many_senders(stage: Stage, scripted: Scripted) -> None:
    senders, each = 4, 20

    async def send(run: RunHandle, sender: int) -> None:
        own = get_run(stage.client, run.id)
        again = range(0, each, 5)
        for number in (*range(each - 1), *again, each - 1):
            text = f"sender {sender} message {number}"
            await own.steer(text, message_id=text)

    async with stage.worker([shout]):
        model = scripted(goes_on_for(30, until_told=senders * each))
        run = await stage.start(scripted_agent(model, ["shout"]), max_iterations=500)
        await asyncio.gather(*[send(run, sender) for sender in range(senders)])
        result = await run.result()
    assert len(await links(stage.client, run.id)) >= 3
    texts = [message.text for message in result.messages if message.text.startswith("sender ")]
    assert Counter(texts) == Counter(
        f"sender {sender} message {number}" for sender in range(senders) for number in range(each)
    )
    for sender in range(senders):
        own = [text for text in texts if text.startswith(f"sender {sender} ")]
        assert own == [f"sender {sender} message {number}" for number in range(each)]


async def test_more_steering_than_one_payload_holds_is_read_before_going_on(
    stage: Stage, scripted: Scripted
) -> None:
    gate = asyncio.Event()

    @tool
    async def wait(text: str = "") -> str:
        """Wait."""
        await gate.wait()
        return "waited"

    script = [
        *[asks(call("shout", f"c{number}")) for number in range(2)],
        asks(call("wait", "w")),
        *[says("done")] * 2,
    ]
    async with stage.worker([shout, wait]):
        run = await stage.start(scripted_agent(scripted(script), ["shout", "wait"]))
        await wait_for(lambda: _has_reached(run, 3))
        # The next check point is the first at which continue-as-new is due: 4 MB wait there.
        texts = [f"{number}: {'x' * 500_000}" for number in range(8)]
        for text in texts:
            await run.steer(text)
        gate.set()
        result = await run.result()
    assert [message.text for message in result.messages if message.role == "user"][1:] == texts


async def test_steering_is_refused_before_its_history_would_be_too_large(
    stage: Stage, scripted: Scripted
) -> None:
    gate = asyncio.Event()

    @tool
    async def wait(text: str = "") -> str:
        """Wait."""
        await gate.wait()
        return "waited"

    async with stage.worker([wait]):
        run = await stage.start(
            scripted_agent(scripted([asks(call("wait", "w")), says("done")]), ["wait"])
        )
        await wait_for(lambda: _has_reached(run, 1))
        texts: list[str] = []

        async def steer_too_often() -> None:
            for number in range(31):
                text = noise(1_700_000, number)
                await run.steer(text)
                texts.append(text)

        with pytest.raises(PayloadTooLargeError, match=f"the history of run '{run.id}'"):
            await steer_too_often()
        assert len(texts) > 5
        texts.append("a short one is still taken")
        await run.steer(texts[-1])
        stage.runs.clear()
        await stage.client.get_workflow_handle(run.id).terminate()


async def _has_reached(run: RunHandle, iteration: int) -> bool:
    return (await run.status()).iteration >= iteration


async def test_a_decision_that_comes_again_in_a_later_history_counts_once(
    stage: Stage, scripted: Scripted
) -> None:
    @tool(needs_approval=True)
    def delete(text: str = "") -> str:
        """Delete."""
        return f"deleted {text}"

    rounds = [
        [asks(call("delete", "c", text=str(number))), asks(call("shout", "s"))]
        for number in range(5)
    ]
    sent: list[CallApproval] = []
    async with stage.worker([shout, delete]):
        model = scripted([*itertools.chain(*rounds), says("done")])
        run = await stage.start(scripted_agent(model, ["shout", "delete"]), max_iterations=30)
        chain = Chain(stage.client, run.id)
        async for event in run.stream():
            if event.type != "permission_requested":
                continue
            for earlier in sent:
                await decide(chain, earlier)
            [pending] = (await run.status()).pending_approvals
            assert pending.digest == event.data["digest"]
            approval = CallApproval(
                call_id=pending.call_id, approved=True, id=f"decision {len(sent)}"
            )
            sent.append(approval)
            await decide(chain, approval)
        await run.result()
    assert len(await links(stage.client, run.id)) >= 3


async def test_budgets_count_the_whole_run(stage: Stage, scripted: Scripted) -> None:
    def reply(request: ScriptedRequest) -> ScriptedReply:
        return asks(call("shout", "c"), input_tokens=90, output_tokens=10)

    async with stage.worker([shout]):
        run = await stage.start(
            scripted_agent(scripted(reply), ["shout"]), max_iterations=50, max_total_tokens=1300
        )
        with pytest.raises(LimitExceededError) as raised:
            await run.result()
    assert raised.value.iterations == 13
    assert "max_total_tokens: 1300 used" in (raised.value.reason or "")
    assert len(raised.value.messages) == 2 + 13 * 2
    assert len(await links(stage.client, run.id)) >= 3
    events = await run.events()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[-1].type == "failed"


@pytest.mark.parametrize("delay", [0.0, 0.05])
async def test_a_cancel_at_the_boundary(stage: Stage, scripted: Scripted, delay: float) -> None:
    async with stage.worker([shout]):
        run = await stage.start(
            scripted_agent(scripted(goes_on_for(400)), ["shout"]), max_iterations=500
        )
        handle = stage.client.get_workflow_handle(run.id)
        first = await handle.describe()
        async for event in stage.client.get_workflow_handle(
            run.id, run_id=first.run_id
        ).fetch_history_events(wait_new_event=True):
            if event.HasField("workflow_execution_continued_as_new_event_attributes"):
                break
        await asyncio.sleep(delay)
        await run.cancel("at the boundary")
        with pytest.raises(RunCancelled):
            await run.result()
    await _check_cancelled(stage, run)


async def _check_cancelled(stage: Stage, run: RunHandle) -> None:
    description = await stage.client.get_workflow_handle(run.id).describe()
    assert description.status is not None
    assert description.status.name == "CANCELED"
    events = await get_run(stage.client, run.id).events()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [event.type for event in events if event.type in ("done", "cancelled", "failed")] == [
        "cancelled"
    ]
    assert events[-1].type == "cancelled"
    called = [event.iteration for event in events if event.type == "llm_start"]
    assert called == list(itertools.islice(itertools.count(1), len(called)))
    assert (await run.status()).status == "cancelled"
