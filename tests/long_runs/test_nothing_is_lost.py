"""Across continue-as-new, a run says and does exactly what it would have said and done in one
history.
"""

from __future__ import annotations

import pytest

from perdure.client import RunHandle, get_run
from perdure.conversation import Conversation
from perdure.events import RunEvent
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.testing import ScriptedReply, asks, call, says
from perdure.tools import tool
from perdure.tools.context import ToolContext

from ..support.agents import Scripted, scripted_agent
from ..support.comparison import fingerprints, links, portable, run_in_process, without_clock
from ..support.retention import remove_link
from ..support.stage import Stage
from ..support.tracing import names, require_tree


@tool
def shout(text: str = "") -> str:
    """Shout."""
    return text.upper()


def rounds(count: int, **more: object) -> list[ScriptedReply]:
    """So many rounds of one tool call, and the answer."""
    asked = [
        asks(
            call("shout", f"call_{number}", text=f"round {number}"),
            text=f"Round {number}.",
            input_tokens=number,
        )
        for number in range(1, count + 1)
    ]
    return [*asked, says("done", input_tokens=1000)]


async def follow(run: RunHandle) -> list[RunEvent]:
    return [event async for event in run.stream()]


def told(events: list[RunEvent]) -> list[tuple[str, int, object]]:
    """What the events say, without the clock."""
    return [(event.type, event.iteration, event.data) for event in events]


async def test_the_conversation_the_events_and_the_usage(stage: Stage, scripted: Scripted) -> None:
    model, other = scripted(rounds(20)), scripted(rounds(20))
    expected = await run_in_process(scripted_agent(other, ["shout"]), [shout], max_iterations=30)
    async with stage.worker([shout], prices={"*/*": {"input": 1, "output": 0}}):
        run = await stage.start(scripted_agent(model, ["shout"]), max_iterations=30)
        live = await follow(run)
        result = await run.result()
        status = await run.status()
    assert len(await links(stage.client, run.id)) >= 4

    assert fingerprints(model) == fingerprints(other)
    assert result.output == "done"
    assert result.iterations == 21
    assert portable(result.messages) == portable(expected.messages)
    assert result.usage == expected.usage
    assert result.cost_usd == pytest.approx(result.usage.input_tokens / 1_000_000)
    used = [event.data["usage"] for event in live if event.type == "llm_complete"]
    assert [usage["input_tokens"] for usage in used] == [*range(1, 21), 1000]
    assert (status.status, status.iteration, status.model_calls) == ("done", 21, 21)
    assert status.usage == result.usage

    assert [event.seq for event in live] == list(range(1, len(live) + 1))
    assert live[-1].type == "done"
    assert status.last_seq == live[-1].seq
    # With the worker gone, another reader finds the same in the closed histories.
    reader = get_run(stage.client, run.id)
    assert without_clock(await reader.events()) == without_clock(live)
    assert [event.seq for event in await reader.events(after=live[-3].seq)] == [
        live[-2].seq,
        live[-1].seq,
    ]
    assert await reader.messages() == result.messages


async def test_idempotency_keys_are_unique_in_the_whole_run(
    stage: Stage, scripted: Scripted
) -> None:
    contexts: list[ToolContext] = []

    @tool
    def note(context: ToolContext, text: str = "") -> str:
        """Note."""
        contexts.append(context)
        return "noted"

    count = 12
    # The same call id in every round, as some models have it.
    script = [asks(call("note", "same"), call("note", "same_too")) for _ in range(count)]
    async with stage.worker([note]):
        run = await stage.start(
            scripted_agent(scripted([*script, says("done")]), ["note"]), max_iterations=30
        )
        await run.result()
    assert len(await links(stage.client, run.id)) > 2
    keys = [context.idempotency_key for context in contexts]
    assert len(set(keys)) == 2 * count
    assert [key.partition("/")[2] for key in keys] == [
        f"{iteration}/{index}" for iteration in range(1, count + 1) for index in range(2)
    ]
    assert {context.run_id for context in contexts} == {run.id}


async def test_what_trimming_drops_stays_readable(stage: Stage, scripted: Scripted) -> None:
    # Trimming hides assistant turns from the script, so it counts the rounds by the last tool
    # result.
    def script(request: object) -> ScriptedReply:
        messages: list[Message] = request.messages  # type: ignore[attr-defined]
        last = messages[-1].text
        number = int(last.rpartition(" ")[2]) + 1 if messages[-1].role == "tool" else 1
        if number > 25:
            return says("done")
        return asks(call("shout", f"call_{number}", text=f"{'x' * 300} {number}"))

    model, other = scripted(script), scripted(script)
    options: JsonObject = {"max_iterations": 30, "context_budget": 3000}
    expected = await run_in_process(scripted_agent(other, ["shout"]), [shout], **options)
    async with stage.worker([shout]):
        run = await stage.start(scripted_agent(model, ["shout"]), **options)
        live = await follow(run)
        result = await run.result()
    assert len(await links(stage.client, run.id)) > 4
    assert fingerprints(model) == fingerprints(other)
    assert portable(result.messages) == portable(expected.messages)
    assert (
        max(len(event.data["messages"]) for event in live if event.type == "messages_updated") <= 12
    )
    complete = await run.messages()
    assert len(complete) == 2 + 25 * 2 + 1
    assert [message.text.rpartition(" ")[2] for message in complete if message.role == "tool"] == [
        str(number) for number in range(1, 26)
    ]
    assert without_clock(await get_run(stage.client, run.id).events()) == without_clock(live)


@pytest.mark.chaos  # because the server takes half a minute
async def test_what_is_older_than_the_namespace_keeps_is_missing_and_nothing_else(
    stage: Stage, scripted: Scripted
) -> None:
    async with stage.worker([shout]):
        run = await stage.start(scripted_agent(scripted(rounds(20)), ["shout"]), max_iterations=30)
        result = await run.result()
    events, messages = await run.events(), await run.messages()
    chain = await links(stage.client, run.id)
    for link in chain[:2]:
        await remove_link(stage.client, run.id, link.run_id)
    reader = get_run(stage.client, run.id)
    kept = await reader.events()
    # Nobody can know any more what was there before: the first change that is left says it all.
    first = next(event for event in kept if event.operations)
    whole = Conversation([])
    for operation in first.operations:
        whole.apply(operation)
    assert whole.messages == first.data["messages"]
    changes = {"operations": first.operations}
    assert kept == [
        e.model_copy(update=changes) if e.seq == first.seq else e for e in events[-len(kept) :]
    ]
    assert chain[2].input.carried is not None
    assert kept[0].seq == chain[2].input.carried.last_seq + 1
    assert [
        event async for event in get_run(stage.client, run.id).stream(after=kept[-3].seq)
    ] == kept[-2:]
    assert await reader.messages() == messages
    assert (await reader.result()).messages == result.messages
    assert (await reader.status()).status == "done"
    spans = await reader.trace()
    require_tree(spans)
    assert 0 < names(spans).count("execute_tool shout") < 20
