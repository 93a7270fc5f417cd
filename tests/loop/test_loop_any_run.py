"""Whatever models, tools, guardrails and people do: what holds of every run."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import HealthCheck, event, given, settings

from perdure.agents import Agent
from perdure.conversation import Append, Conversation, Rewrite
from perdure.errors import RunCancelled
from perdure.events import EventReader, LoggedEvent
from perdure.messages import Message
from perdure.providers.registry import to_request
from perdure.testing.wires.table import WIRES

from ..support.random_runs import RandomRun, Script, Seen, scripts

AGENT = Agent.model_validate({"model": {"id": "m"}})
APIS = {
    "chat": ("openai", "chat"),
    "responses": ("openai", "responses"),
    "anthropic": ("anthropic", "chat"),
}


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scripts())
async def test_any_run(script: Script) -> None:
    run = RandomRun(script)
    seen = await run.play()
    events = run.effects.log.page(0).events
    event(f"ends with {events[-1].type}")
    check_events(events, run.conversation)
    check_tool_events(events)
    check_counts(run, seen)
    check_end(script, seen, events)
    check_steering(run, seen)
    check_systems(script, seen)
    for messages in (*seen.asked, run.conversation.messages):
        check_validity(messages)
    check_readers(run, script)


def check_events(events: list[LoggedEvent], conversation: Conversation) -> None:
    assert [found.seq for found in events] == list(range(1, len(events) + 1))
    assert all(
        one.iteration <= next.iteration and one.time <= next.time for one, next in pairwise(events)
    )
    assert [found.type for found in events if found.type in ("done", "cancelled", "failed")] == [
        events[-1].type
    ]
    version = 0
    for found in events:
        assert found.version == version or found.type == "messages_updated", (
            f"a change was not announced: {found}"
        )
        version = found.version
    assert version == conversation.version


def check_tool_events(events: list[LoggedEvent]) -> None:
    started: dict[str | None, str] = {}
    ended: list[str | None] = []
    for found in events:
        if found.type == "tool_call_start":
            assert found.call_id not in started
            started[found.call_id] = found.data["name"]
        if found.type == "tool_result":
            assert started[found.call_id] == found.data["name"]
            ended.append(found.call_id)
    assert sorted(map(str, ended)) == sorted(map(str, started))


def check_counts(run: RandomRun, seen: Seen) -> None:
    assert seen.state is not None
    assert seen.state.iterations == seen.completed - _abandoned(run, seen)
    assert seen.state.tool_calls == seen.executed
    assert len(seen.state.iteration_usage) == seen.state.iterations
    ended = seen.result or seen.error
    assert ended is not None
    assert ended.iterations == seen.state.iterations
    assert ended.messages == run.conversation.messages


def _abandoned(run: RandomRun, seen: Seen) -> int:
    """Calls whose reply was on its way when the run was cancelled."""
    completions = sum(found.type == "llm_complete" for found in run.effects.log.page(0).events)
    lost = seen.completed - completions
    assert lost <= seen.cancelled
    return lost


def check_end(script: Script, seen: Seen, events: list[LoggedEvent]) -> None:
    assert seen.started_after_cancel == []
    is_cancelled = isinstance(seen.error, RunCancelled)
    assert (events[-1].type == "cancelled") == is_cancelled
    assert (events[-1].type == "done") == (seen.result is not None)
    assert seen.cancelled or not is_cancelled
    limit = script.options.max_iterations + (script.options.on_limit == "final_answer")
    assert (seen.result or seen.error).iterations <= limit  # type: ignore[union-attr]


def check_steering(run: RandomRun, seen: Seen) -> None:
    said = [
        message.text
        for operation in run.conversation.operations
        if isinstance(operation, Append)
        for message in operation.messages
        if message.text.startswith("steering ")
    ]
    too_late = run.effects.drain_steering()
    assert [*said, *too_late] == seen.steered
    announced_the_end = [kind for kind, _ in seen.delivered[-3:-1]]
    assert not too_late or announced_the_end == ["messages_updated", "status"]


def check_systems(script: Script, seen: Seen) -> None:
    systems = [message for message in script.seed if message.role == "system"]
    for messages in seen.asked:
        assert messages[: len(systems)] == systems
        assert not any(message.role == "system" for message in messages[len(systems) :])


def check_validity(messages: list[Message]) -> None:
    for wire in WIRES.values():
        provider, api_type = APIS[wire.API]
        request = to_request(AGENT, messages, provider=provider, api_type=api_type)
        assert wire.find_fault(request) is None


def check_readers(run: RandomRun, script: Script) -> None:
    read = list(EventReader(script.seed).read(run.effects.log.page(0)))
    assert [(found.type, found.data) for found in read] == run.seen.delivered
    copy = Conversation(script.seed)
    for operation in run.conversation.operations:
        assert not isinstance(operation, Rewrite), "a rewrite that changes nothing is no operation"
        copy.apply(operation)
    assert copy.messages == run.conversation.messages
