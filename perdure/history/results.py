"""Complete results of a run's tool calls, from the histories of its links."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ..errors import UnknownCallError
from ..messages import ModelReply, ToolResult
from ..protocol import activities
from ..tool_results import CallPlace, choose
from .calls import ToResult, answers_call, call_key, decoded_result, executed_by
from .events import RecordedActivity, RecordedChild, RecordedWork, decode


async def read_result(
    client: Client,
    workflow_id: str,
    run_id: str,
    call_id: str,
    *,
    iteration: int | None,
    to_result: ToResult,
    ignored: Sequence[str] = (),
) -> ToolResult:
    """Read the result of the last call of that id up to this link, or of the one in that iteration,
    as recorded.

    Ignores calls of the tools in `ignored`. Raises `UnknownCallError` if no remaining history has
    such a call, `RPCError` for an unknown link, and `ConfigurationError` for a value in a storage
    that `client` can't reach.
    """
    known: list[CallPlace] = []
    current: str | None = run_id
    while current:
        handle = client.get_workflow_handle(workflow_id, run_id=current)
        try:
            history = [event async for event in handle.fetch_history_events()]
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND or current == run_id:
                raise
            break  # older than the retention period
        answers = await _answers(client, workflow_id, RecordedWork(history), ignored)
        known += answers
        answer = None
        with suppress(UnknownCallError):
            answer = answers[choose(answers, call_id, iteration)]
        if answer is not None:
            result = await decoded_result(
                client, executed_by(answer), answer.result or (), to_result
            )
            if result is None and (by := await _finisher(client, answer)):
                raise UnknownCallError(
                    f"the tool call {call_id!r} has no result yet: {by} finishes it"
                )
            return ToolResult(parts=[]) if result is None else result
        current = history[0].workflow_execution_started_event_attributes.continued_execution_run_id
    raise UnknownCallError(_text(known, call_id, iteration))


async def _finisher(client: Client, answer: RecordedActivity | RecordedChild) -> str:
    if executed_by(answer) != "tool":
        return ""
    result = await decode(client, answer.result or (), ToolResult)
    return "another system" if result.later else "a person's answer" if result.needs else ""


def _text(known: Iterable[CallPlace], call_id: str, iteration: int | None) -> str:
    try:
        choose(known, call_id, iteration)
    except UnknownCallError as error:
        return str(error)
    raise AssertionError("a call that is known was not found")


async def _answers(
    client: Client, workflow_id: str, work: RecordedWork, ignored: Sequence[str]
) -> dict[CallPlace, RecordedActivity | RecordedChild]:
    """Return the step that answered each call in one link, except calls of `ignored` tools."""
    children = {call_key(child, workflow_id) for child in work.children}
    found: dict[CallPlace, RecordedActivity | RecordedChild] = {}
    elsewhere: dict[tuple[int, int], RecordedActivity | RecordedChild] = {}
    """By iteration and index: only the model's reply has the call's id."""
    for step in work.executions:
        if step.result is None or (isinstance(step, RecordedActivity) and step.is_local):
            continue
        if isinstance(step, RecordedActivity) and answers_call(step):
            request = (await step.input_fields(client)).request
            # If a child executes the call, the activity only prepared it.
            if request and (request.iteration, request.index) not in children:
                found[
                    CallPlace(request.iteration, request.index, request.call_id, request.name)
                ] = step
        elif key := call_key(step, workflow_id):
            elsewhere[key] = step
    for place in await _calls_of_replies(client, work) if elsewhere else ():
        if answer := elsewhere.get((place.iteration, place.index)):
            found[place] = answer
    return {place: answer for place, answer in found.items() if place.name not in ignored}


async def _calls_of_replies(client: Client, work: RecordedWork) -> list[CallPlace]:
    places: list[CallPlace] = []
    for model_call in work.activities_of({activities.CALL_MODEL}):
        if model_call.result is not None:
            iteration = (await model_call.input_fields(client)).iteration
            calls = (await decode(client, model_call.result, ModelReply)).message.tool_calls
            places += [
                CallPlace(iteration, index, call.id, call.name) for index, call in enumerate(calls)
            ]
    return places
