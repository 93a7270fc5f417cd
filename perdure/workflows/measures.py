"""What a run's workflow counts: how it has ended, and how long persons were waited for. Never on replay."""

from __future__ import annotations

from temporalio import workflow

from ..tool_calls import Approval, PendingApproval

RUNS_ENDED = "perdure_runs_ended"
AGENT_SECONDS = "gen_ai_invoke_agent_duration_seconds"
WAIT_SECONDS = "perdure_person_wait_duration_seconds"


def run_ended(agent: str | None, outcome: str, error_kind: str, seconds: float) -> None:
    """Count a run, all its links together; `outcome` is done, incomplete (at a limit), failed or cancelled."""
    meter, about = workflow.metric_meter(), {"gen_ai_agent_name": agent or "", "error_type": error_kind}
    meter.create_counter(RUNS_ENDED, "Runs that have ended").add(1, {**about, "outcome": outcome})
    meter.create_histogram_float(AGENT_SECONDS, "From the start of a run to its end").record(max(seconds, 0.0), about)


def person_waited_for(pending: PendingApproval, approval: Approval | None, *, cancelled: bool) -> None:
    """Count a call's wait for a person, which is over; without an approval it was given up, or took too long."""
    given_up = "cancelled" if cancelled else "expired"
    outcome = given_up if approval is None else _decision(approval)
    about = {"kind": pending.kind, "gen_ai_tool_name": pending.name, "outcome": outcome}
    histogram = workflow.metric_meter().create_histogram_float(WAIT_SECONDS, "How long calls have waited for a person")
    histogram.record(max(workflow.time() - pending.since, 0.0), about)


def _decision(approval: Approval) -> str:
    if not approval.approved:
        return "denied"
    return "approved" if approval.answer is None else "answered"
