"""`perdure show`: prints the status of a run, and a line for each iteration."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from datetime import UTC, datetime

from temporalio.client import WorkflowExecutionDescription
from temporalio.service import RPCError, RPCStatusCode

from ..client import RunHandle
from ..client.connection import server_time
from ..client.fork import fork_origin, forks_of
from ..client.reading.survey import IterationSurvey, Survey, survey
from ..history.chain import Chain
from ..history.link import read_input
from ..json_types import JsonObject, JsonView
from ..protocol.outcome import RunStatus
from ..protocol.search_attributes import ORIGIN
from ..text import count_of, format_usd, one_line, visible
from .console import (
    answer,
    decision_text,
    describe_seconds,
    describe_usage,
    in_columns,
    short_call,
)
from .given import Given
from .recorded_run import open_run, waiting_shown
from .server_connection import ServerConnection
from .status import failure_of, read_state

_MARKS = {"success": "✓", "open": "…"}
_WORDS = {"error": "failed", "timeout": "timed out", "cancelled": "cancelled", "denied": "denied"}
_SHOWN_CALL, _SHOWN_FAILURE = 50, 80
"""Characters."""


def in_lines(run: JsonView) -> Iterator[str]:
    """Yield a line for each iteration."""
    if run["first_kept"] > 1:
        yield f"The iterations before {run['first_kept']} are not kept any more."
    if run["unreplayed"]:
        yield "Another version of perdure made this run: the times of decisions can't be read."
    waiting = {
        (each.get("iteration"), each["call_id"])
        for each in run["pending_approvals"]
        if not each.get("run_id")
    }
    yield from _table(run["iterations"], waiting, has_ended=bool(run["ended"]))


def _table(
    iterations: Sequence[JsonView], waiting: Container[tuple[int, str]], *, has_ended: bool
) -> list[str]:
    """Iterations as aligned columns: number, agent if there are several, model, tokens, cost if
    there is any, time, and what else happened.

    `waiting` are the calls that wait for a person, by iteration and id.
    """
    rows = [_row(each, waiting, has_ended=has_ended) for each in iterations]
    if len({each["agent"] for each in iterations}) > 1:
        names = [visible(one_line(each["agent"], 40)) for each in iterations]
        rows = [[row[0], name, *row[1:]] for row, name in zip(rows, names, strict=True)]
    if not any(row[-3] for row in rows):
        rows = [[*row[:-3], *row[-2:]] for row in rows]
    return in_columns(rows)


def _row(each: JsonView, waiting: Container[tuple[int, str]], *, has_ended: bool) -> list[str]:
    """`has_ended` is about the run, not about the iteration."""
    tools = [
        _tool(tool, has_ended=has_ended, waits=(each["iteration"], tool["call_id"]) in waiting)
        for tool in each["tools"]
    ]
    return [
        f"{each['iteration']:>3}",
        visible(
            one_line(
                each["model"]
                or (_unfinished(has_ended=has_ended) if each["usage"] is None else ""),
                40,
            )
        ),
        describe_usage(each["usage"]) if each["usage"] else "",
        format_usd(each["cost_usd"]),
        describe_seconds(each["seconds"]) if each["seconds"] is not None else "",
        visible("; ".join([*_held_up(each), *tools])),
    ]


def _held_up(each: JsonView) -> Iterator[str]:
    if each["tries"] > 1 or each["failures"]:
        why = f" ({one_line(each['failures'][-1], _SHOWN_FAILURE)})" if each["failures"] else ""
        yield f"{count_of(each['tries'], 'try' if each['tries'] == 1 else 'trie')}{why}"
    if each["lost"]:
        yield f"{count_of(each['lost'], 'attempt')} lost with a worker"
    if each.get("held"):
        yield f"held {describe_seconds(each['held'])}"
    if each["steering"]:
        yield f"{count_of(len(each['steering']), 'steering message')} read"
    if each["trimmed"]:
        yield f"{count_of(each['trimmed'], 'message')} trimmed"


def _unfinished(*, has_ended: bool) -> str:
    return "unfinished" if has_ended else "open"


def _tool(tool: JsonView, *, has_ended: bool, waits: bool) -> str:
    outcome = tool["outcome"]
    word = "waits for a person" if waits else _WORDS.get(outcome, "")
    if tool.get("never_executed"):
        outcome, word = "error", "never executed: no worker had it"
    elif outcome == "open" and not waits:
        word = _unfinished(has_ended=has_ended)
        if has_ended and not tool["attempts"] and not tool.get("run"):
            outcome, word = "error", "never executed"
    figures = [
        "" if tool.get("decision") and outcome == "denied" else word,
        "its outcome is not known" if tool.get("outcome_unknown") else "",
        describe_seconds(tool["seconds"]) if tool["seconds"] is not None else "",
        count_of(tool["attempts"], "attempt") if tool["attempts"] > 1 else "",
        f"{count_of(tool['refusals'], 'refusal')} by workers without it"
        if tool.get("refusals")
        else "",
        _decision(tool),
        _children(tool),
    ]
    said = ", ".join(filter(None, figures))
    call = short_call(tool["name"], tool["arguments"], _SHOWN_CALL)
    return f"{_MARKS.get(outcome, '✗')} {call} {said}".rstrip()


def _decision(tool: JsonView) -> str:
    decision = tool.get("decision")
    if not decision:
        return ""
    said = one_line(decision_text(decision), _SHOWN_FAILURE)
    return f"{said} after {describe_seconds(tool.get('waited', 0.0))}"


def _children(tool: JsonView) -> str:
    run = tool.get("run")
    if not run:
        return ""
    if run["iterations"] is None:
        return f"run {run['id']}"
    used = [
        count_of(run["iterations"], "iteration"),
        describe_usage(run["usage"]),
        format_usd(run["cost_usd"]),
    ]
    return f"run {run['id']} ({', '.join(filter(None, used))})"


async def show(given: Given) -> None:
    """Print the run's iterations, calls and result."""
    async with open_run(given.id) as (server, handle):
        with waiting_shown():
            found = await summary(server, handle)
        lines = (
            []
            if given.as_json
            else (await read_state(server, handle, given.id, with_steps=True)).lines
        )
    if given.as_json:
        answer(found)
        return
    for line in (*lines, "", *in_lines(found)):
        answer(line)


async def summary(server: ServerConnection, handle: RunHandle) -> JsonObject:
    """Read the run as JSON: its agent, its status, and its iterations.

    Raises `RPCError` when there is no such run.
    """
    chain = Chain(server.client, handle.id)
    described = await chain.describe()
    status = await handle.status()
    found = await survey(chain)
    now = 0.0 if described.close_time else await server_time(server.client)
    return {
        "id": handle.id,
        "status": status.status,
        **await _what_it_is(chain, described),
        **({"failure": failure} if (failure := await failure_of(chain, described)) else {}),
        **_when(found, status, described, now),
        "model_calls": status.model_calls,
        "usage": status.usage.model_dump(mode="json"),
        "cost_usd": status.cost_usd,
        "unpriced_calls": status.unpriced_calls,
        "links": found.links,
        "first_kept": found.first_kept,
        "unreplayed": found.unreplayed,
        "pending_approvals": [
            each.model_dump(mode="json", by_alias=True) for each in status.pending_approvals
        ],
        "held": [each.model_dump(mode="json", by_alias=True) for each in status.held],
        "queue_without_worker": status.queue_without_worker,
        "iterations": [_as_json(each) for each in found.iterations],
    }


async def _what_it_is(chain: Chain, described: WorkflowExecutionDescription) -> JsonObject:
    input = await read_input(chain.client, chain.workflow_id, described.run_id)
    forked, lineage, model = await fork_origin(described), input.lineage, input.agent.model
    return {
        "agent": input.agent.name,
        "model": model.id if model else None,
        "provider": model.provider_key if model else None,
        "task_queue": described.task_queue,
        "origin": described.typed_search_attributes.get(ORIGIN),
        "called_by": {"run": lineage.parent, "call_id": lineage.call_id} if lineage else None,
        "fork_of": {"run": forked.run, "at": forked.at} if forked else None,
        "forks": await _forks(chain),
    }


async def _forks(chain: Chain) -> list[str]:
    try:
        return [fork async for fork in forks_of(chain.client, chain.workflow_id)]
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        return []  # the search attribute by which they would be found is not registered here


def _when(
    found: Survey, status: RunStatus, described: WorkflowExecutionDescription, now: float
) -> JsonObject:
    ended = described.close_time.timestamp() if described.close_time else None
    until = ended or now
    waiting = [each.since for each in status.pending_approvals] + [
        each.since for each in status.held
    ]
    seconds = until - found.started
    return {
        "started": _as_time(found.started),
        "ended": _as_time(ended) if ended else None,
        "seconds": round(seconds, 3),
        "active_seconds": round(
            max(0.0, seconds - found.seconds_waited(() if ended else waiting, until)), 3
        ),
    }


def _as_json(each: IterationSurvey) -> JsonObject:
    started = None if each.started is None else _as_time(each.started, "milliseconds")
    return {**each.model_dump(mode="json"), "started": started}


def _as_time(seconds: float, timespec: str = "seconds") -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec=timespec)
