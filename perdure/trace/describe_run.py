"""The spans of a link itself: the run as a whole, calls executed elsewhere, waits for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ..errors import GuardrailError, OutputError
from ..events import RunEvent
from ..messages import Message
from ..trace_ids import read_traceparent
from ..workflows.run_state import DelegatedCall, RunState
from . import content
from .describe import Describer, SpanFacts, Value, nanoseconds, usage_attributes

QUOTES_CONTENT = (GuardrailError.kind, OutputError.kind)
"""Kinds of failures whose text quotes the guardrail's reason or the model's answer."""


def link_spans(describer: Describer, run: RunState, events: Sequence[RunEvent]) -> list[SpanFacts]:
    """Describe the spans without an activity on perdure's worker: delegated calls, waits for
    people, and holds.

    Spans of an open run may be open.
    """
    calls = (_delegated_call_span(describer, call, events) for call in run.delegated)
    return [*calls, *_wait_spans(describer, events)]


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
        initial = (
            [] if run.input.carried else run.input.added_messages or run.input.initial_messages
        )
        attributes |= content.asked(initial, run.input.inputs, describer.clean)
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


def _delegated_call_span(
    describer: Describer, call: DelegatedCall, events: Sequence[RunEvent]
) -> SpanFacts:
    request = call.request
    facts = describer.tool(request, None)
    facts.start = nanoseconds(call.since)
    facts.end = None if call.until is None else nanoseconds(call.until)
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
    return facts


def _wait_spans(describer: Describer, events: Sequence[RunEvent]) -> Iterator[SpanFacts]:
    """Describe waits for people, from `permission_requested` to `permission_completed`, and holds,
    from the first `held` to `went_on`; an abandoned one ends with its call or its run.
    """
    asked: Counter[int] = Counter()
    waiting: dict[object, SpanFacts] = {}
    for event in events:
        call = (event.iteration, event.call_id)
        ended: list[SpanFacts] = []
        match event.type:
            case "permission_requested":
                waiting[call] = _wait_span(describer, event, asked[event.iteration])
                asked[event.iteration] += 1
            case "held" if "held" not in waiting:
                waiting["held"] = _hold_span(describer, event)
            case "permission_completed" if call in waiting:
                ended.append(waiting.pop(call))
                ended[0].attributes |= _decision_attributes(event, describer)
            case "went_on" if "held" in waiting:
                ended.append(waiting.pop("held"))
                if by := event.data["by"]:
                    ended[0].attributes["perdure.wait.by"] = describer.text(by)
            case "tool_result" | "done" | "failed" | "cancelled":
                calls = [call] if event.type == "tool_result" else list(waiting)
                ended += [waiting.pop(each) for each in calls if each in waiting]
                for wait in ended:
                    wait.set_error("cancelled")
        for wait in ended:
            wait.end = nanoseconds(event.time)
            yield wait
    yield from waiting.values()


def _hold_span(describer: Describer, event: RunEvent) -> SpanFacts:
    attributes: dict[str, Value] = {
        "perdure.run.id": describer.ids.workflow_id,
        "perdure.iteration": event.iteration,
        "perdure.wait.kind": "held",
        "perdure.wait.reason": event.data["reason"],
    }
    id = describer.ids.wait("held", event.iteration, event.seq)
    return SpanFacts(
        "wait held", id, describer.ids.agent, attributes, start=nanoseconds(event.time)
    )


def _wait_span(describer: Describer, event: RunEvent, number: int) -> SpanFacts:
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
    return SpanFacts(
        f"wait {kind} {tool}", id, describer.ids.agent, attributes, start=nanoseconds(event.time)
    )


def _decision_attributes(event: RunEvent, describer: Describer) -> dict[str, Value]:
    attributes: dict[str, Value] = {"perdure.wait.approved": event.data["approved"]}
    if by := event.data["by"]:
        attributes["perdure.wait.by"] = describer.text(by)
        if event.data.get("vouched"):
            attributes["perdure.wait.vouched"] = True
    if describer.with_content and (text := event.data.get("answer") or event.data["reason"]):
        attributes["perdure.wait.answer"] = describer.text(text)
    return attributes
