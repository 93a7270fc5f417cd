"""The spans of a link itself: the run as a whole, calls executed elsewhere, waits for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..errors import GuardrailError, OutputError
from ..events import RunEvent
from ..messages import Message
from ..trace_ids import read_traceparent
from ..workflows.run_state import DelegatedCall, RunState
from . import content
from .describe import Describer, SpanFacts, Value, usage_attributes

QUOTES_CONTENT = (GuardrailError.kind, OutputError.kind)
"""Kinds of failures whose text quotes the guardrail's reason or the model's answer."""


@dataclass
class TimedSpan:
    """Span with its times, in seconds since the epoch; `until` is None while it is open."""

    facts: SpanFacts
    since: float
    until: float | None = None


def link_spans(describer: Describer, run: RunState, events: Sequence[RunEvent]) -> list[TimedSpan]:
    """Describe the spans without an activity on perdure's worker: delegated calls, waits for
    people, and holds.

    Spans of an open run may be open.
    """
    calls = (_delegated_call(describer, call, events) for call in run.delegated)
    return [*calls, *_waits(describer, events), *_holds(describer, events)]


def agent_span(
    describer: Describer, run: RunState, events: Sequence[RunEvent], *, session: str | None = None
) -> SpanFacts:
    """Describe the run as a whole, by its last link; `session` is the id of the run's session."""
    session = describer.session or session
    ids, agent, state = describer.ids, describer.agent, run.loop
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "invoke_agent",
        **describer.of_model,
        **({"gen_ai.agent.name": agent.name} if agent.name else {}),
        **(
            {"gen_ai.agent.description": describer.text(agent.description)}
            if agent.description
            else {}
        ),
        **({"gen_ai.conversation.id": session} if session else {}),
        **usage_attributes(state.usage, state.cost_usd),
        "perdure.run.id": ids.workflow_id,
        "perdure.run.first_link": ids.first_run_id,
        "perdure.links": run.input.carried.links + 1 if run.input.carried else 1,
        "perdure.iterations": state.iterations,
        "perdure.tool_calls": state.tool_calls,
    }
    if describer.with_content:
        began = [] if run.input.carried else run.input.added_messages or run.input.initial_messages
        attributes |= content.asked(began, run.input.inputs, describer.clean)
    name = f"invoke_agent {agent.name}" if agent.name else "invoke_agent"
    facts = SpanFacts(name, ids.agent, ids.parent_id, attributes)
    if above := read_traceparent(run.input.traceparent):
        facts.links.append(above)
    for event in events:
        if event.type == "llm_complete" and (reason := event.data["finishReason"]):
            attributes["gen_ai.response.finish_reasons"] = (reason,)
    if events:
        _set_end(facts, events[-1], describer)
    return facts


def _set_end(facts: SpanFacts, last: RunEvent, describer: Describer) -> None:
    if last.type == "failed":
        kind = last.data["kind"]
        is_shown = describer.with_content or kind not in QUOTES_CONTENT
        facts.set_error(kind, describer.text(last.data["message"]) if is_shown else "")
    elif last.type == "cancelled":
        facts.set_error("cancelled", "the run was cancelled")
    elif last.type == "done" and describer.with_content:
        answer = Message.assistant(last.data["response"])
        facts.attributes |= content.reply(answer, "stop", describer.clean)


def _delegated_call(
    describer: Describer, call: DelegatedCall, events: Sequence[RunEvent]
) -> TimedSpan:
    request = call.request
    facts = describer.tool(request, None)
    if call.workflow_id:
        facts.attributes["perdure.called.run.id"] = call.workflow_id
    if call.error_kind is not None:
        facts.set_error(call.error_kind)
    if describer.with_content:
        place = (request.iteration, request.call_id)
        result = next(
            (
                it
                for it in events
                if it.type == "tool_result" and (it.iteration, it.call_id) == place
            ),
            None,
        )
        if result is not None:
            facts.attributes |= content.result(result.data["result"], describer.clean)
    return TimedSpan(facts, call.since, call.until)


def _waits(describer: Describer, events: Sequence[RunEvent]) -> Iterator[TimedSpan]:
    """Describe waits, from `permission_requested` to `permission_completed`; an abandoned one ends
    with its run.
    """
    asked: Counter[int] = Counter()
    waiting: dict[tuple[int, str | None], TimedSpan] = {}
    for event in events:
        call = (event.iteration, event.call_id)
        if event.type == "permission_requested":
            waiting[call] = TimedSpan(_wait(describer, event, asked[event.iteration]), event.time)
            asked[event.iteration] += 1
        elif event.type == "permission_completed" and (wait := waiting.pop(call, None)):
            wait.until = event.time
            wait.facts.attributes |= _decision(event, describer)
            yield wait
        elif event.type in ("tool_result", "done", "failed", "cancelled"):
            for wait in _abandoned_waits(waiting, event):
                wait.until = event.time
                wait.facts.set_error("cancelled")
                yield wait
    yield from waiting.values()


def _holds(describer: Describer, events: Sequence[RunEvent]) -> Iterator[TimedSpan]:
    """Describe the times in which the run was held, from the first `held` to `went_on`, or to the
    run's end.
    """
    held: TimedSpan | None = None
    for event in events:
        if event.type == "held" and held is None:
            attributes: dict[str, Value] = {
                "perdure.run.id": describer.ids.workflow_id,
                "perdure.iteration": event.iteration,
                "perdure.wait.kind": "held",
                "perdure.wait.reason": event.data["reason"],
            }
            id = describer.ids.wait("held", event.iteration, event.seq)
            held = TimedSpan(
                SpanFacts("wait held", id, describer.ids.agent, attributes), event.time
            )
        elif held and event.type in ("went_on", "done", "failed", "cancelled"):
            held.until = event.time
            if event.type == "went_on":
                held.facts.attributes |= (
                    {"perdure.wait.by": describer.text(by)} if (by := event.data["by"]) else {}
                )
            yield held
            held = None
    if held:
        yield held


def _abandoned_waits(
    waiting: dict[tuple[int, str | None], TimedSpan], event: RunEvent
) -> list[TimedSpan]:
    calls = [(event.iteration, event.call_id)] if event.type == "tool_result" else list(waiting)
    return [waiting.pop(call) for call in calls if call in waiting]


def _wait(describer: Describer, event: RunEvent, number: int) -> SpanFacts:
    kind, tool = event.data["kind"], event.data["name"]
    attributes: dict[str, Value] = {
        "perdure.run.id": describer.ids.workflow_id,
        "perdure.iteration": event.iteration,
        "perdure.wait.kind": kind,
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.id": event.call_id or "",
    }
    if event.data["deadline"] is not None:
        attributes["perdure.wait.deadline"] = event.data["deadline"]
    if describer.with_content:
        attributes |= content.arguments(event.data["arguments"], describer.clean)
    id = describer.ids.wait(kind, event.iteration, number)
    return SpanFacts(f"wait {kind} {tool}", id, describer.ids.agent, attributes)


def _decision(event: RunEvent, describer: Describer) -> dict[str, Value]:
    said: dict[str, Value] = {"perdure.wait.approved": event.data["approved"]}
    if by := event.data["by"]:
        said["perdure.wait.by"] = describer.text(by)
        if event.data.get("vouched"):
            said["perdure.wait.vouched"] = True
    if describer.with_content and (text := event.data.get("answer") or event.data["reason"]):
        said["perdure.wait.answer"] = describer.text(text)
    return said
