"""Log lines and metrics of the runs that a worker executes, never on replay."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from temporalio import workflow
from temporalio.exceptions import ActivityError

from ..commands import command_line
from ..errors import ModelError
from ..protocol.inventory import MissingPart
from ..protocol.outcome import Held
from ..protocol.run import GoOn
from ..redaction import get_logger
from ..text import one_line
from ..tool_calls import Approval, Asked, Decided, PendingApproval, ToolRequest

_log = get_logger("perdure.runs")


def log(level: int, text: str, *values: object, **about: object) -> None:
    """Log a line about the current run, except on replay; `about` holds the line's further
    fields.
    """
    if workflow.unsafe.is_replaying() or not _log.isEnabledFor(level):
        return
    if getattr(workflow.instance(), "is_being_read", False):
        # Temporal does not count a task that no worker has begun as a replay.
        return
    with workflow.unsafe.sandbox_unrestricted():
        run = workflow.info().workflow_id
        _log.log(level, f"Run %s {text}", run, *values, extra={"run": run, **about})


def lacks(lacking: MissingPart, seconds: float) -> None:
    """Log that this worker lacks something, and offers the run to other workers."""
    text = "is offered to other workers of the task queue %r for %g s: this one lacks %s. %s"
    log(logging.WARNING, text, lacking.task_queue, seconds, ", ".join(lacking.what), lacking.text)


def waits(request: ToolRequest, asked: Asked) -> None:
    """Log that the run waits for a person."""
    log(
        logging.INFO,
        f"waits for {'an answer to' if asked.question else 'an approval of'} the call %s of tool "
        "%r",
        *(request.call_id, request.name),
        tool=request.name,
        call=request.call_id,
        digest=request.digest,
    )


def goes_on(request: ToolRequest, asked: Asked, approval: Approval) -> None:
    """Log a person's decision."""
    word = ("answered" if asked.question else "approved") if approval.approved else "denied"
    by = (
        f" by {approval.by}{'' if isinstance(approval, Decided) else ' (claimed)'}"
        if approval.by
        else ""
    )
    reason = f": {one_line(approval.reason, 200)}" if approval.reason else ""
    log(
        logging.INFO,
        f"goes on: the call %s was {word}%s%s",
        *(request.call_id, by, reason),
        tool=request.name,
        call=request.call_id,
    )


def is_held(held: Held) -> None:
    """Log that the run is held until somebody releases it."""
    how = command_line("go-on", workflow.info().workflow_id)
    why = one_line(held.why, 500).rstrip(".")
    log(
        logging.WARNING,
        "is held (%s): %s. Continue it: %s",
        held.reason,
        why,
        how,
        reason=held.reason,
    )


def is_let_go_on(go_on: GoOn) -> None:
    """Log who released the run, and the changed options."""
    by = f" by {one_line(go_on.by)}" if go_on.by else ""
    changes = "".join(
        f", {one_line(name)} is {value!r:.80} now" for name, value in go_on.options.items()
    )
    log(logging.INFO, "is continued%s%s", by, changes)


def outcome_is_unknown(request: ToolRequest, error: ActivityError) -> None:
    """Log that a tool may have taken effect without returning a result."""
    log(
        logging.WARNING,
        "does not know the outcome of the call %s of tool %r, which may have taken effect: %s",
        *(request.call_id, request.name, one_line(str(error.cause or error), 200)),
        tool=request.name,
        call=request.call_id,
    )


def workers_were_lost(error: ActivityError) -> None:
    """Log that all attempts of a model call were lost with their workers, and that more follow."""
    log(
        logging.ERROR,
        "starts a model call again: each worker that tried it was lost (%s). Read the logs of the "
        "workers: if this call kills them, cancel the run",
        error.cause,
    )


def tries_again(error: ModelError, seconds: float) -> None:
    """Log that a model call failed, and that another attempt follows."""
    status = f", status {error.status}" if error.status else ""
    log(
        logging.WARNING,
        "tries a model call again in %.1f s: %s (%s%s of %s)",
        *(seconds, error.message, error.kind, status, error.provider),
    )


RUNS_STARTED = "perdure_runs_started"
RUNS_ENDED = "perdure_runs_ended"
AGENT_SECONDS = "gen_ai_invoke_agent_duration_seconds"
RUN_DOLLARS = "perdure_run_cost_dollars"
WAIT_SECONDS = "perdure_person_wait_duration_seconds"


def run_started(about: Mapping[str, str]) -> None:
    """Count a run that begins; `about` holds its labels."""
    workflow.metric_meter().create_counter(RUNS_STARTED, "Runs that workers have started").add(
        1, about
    )


def run_ended(about: Mapping[str, str], outcome: str, seconds: float) -> None:
    """Count a run, all its links together; `outcome` is done, incomplete (at a limit), failed or
    cancelled.
    """
    meter = workflow.metric_meter()
    meter.create_counter(RUNS_ENDED, "Runs that have ended").add(1, {**about, "outcome": outcome})
    meter.create_histogram_float(AGENT_SECONDS, "From the start of a run to its end").record(
        max(seconds, 0.0), about
    )


def run_paid(about: Mapping[str, str], dollars: float) -> None:
    """Count the cost of a run, including its child runs, which are not counted separately."""
    histogram = workflow.metric_meter().create_histogram_float(
        RUN_DOLLARS, "Cost of runs, in US dollars"
    )
    histogram.record(dollars, about)


def person_waited_for(
    pending: PendingApproval, approval: Approval | None, *, cancelled: bool
) -> None:
    """Count a finished wait for a person; without an approval, the wait was given up or timed
    out.
    """
    given_up = "cancelled" if cancelled else "expired"
    outcome = given_up if approval is None else _decision(approval)
    about = {
        **workflow.instance().labels,
        "kind": pending.kind,
        "gen_ai_tool_name": pending.name,
        "outcome": outcome,
    }
    histogram = workflow.metric_meter().create_histogram_float(
        WAIT_SECONDS, "How long calls have waited for a person"
    )
    histogram.record(max(workflow.time() - pending.since, 0.0), about)


def _decision(approval: Approval) -> str:
    if not approval.approved:
        return "denied"
    return "approved" if approval.answer is None else "answered"
