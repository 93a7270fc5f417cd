"""Starts the activity that asks a guardrail."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.workflow import ActivityHandle

from ..guardrails import JudgedOutput
from ..protocol import activities
from .policies import HEARTBEAT_TIMEOUT, LOST_WORKER_RETRIES, MARGIN, OFFERED_RETRIES
from .summaries import about_call


def start_judging(input: activities.JudgeInput, kind: str, place: str) -> ActivityHandle[JudgedOutput]:
    """Start the activity that asks the guardrail: a local one, which costs less, if it is `plain` and at hand.

    A tool's own function that decides about approvals is asked in the same way. `place` is the iteration, for people.
    """
    timeout = timedelta(seconds=activities.JUDGE_SECONDS) + MARGIN
    if kind == "plain" and input.offer is None:
        return workflow.start_local_activity(
            activities.JUDGE,
            input,
            result_type=JudgedOutput,
            start_to_close_timeout=timeout,
            retry_policy=LOST_WORKER_RETRIES,
        )
    return workflow.start_activity(
        activities.JUDGE,
        input,
        result_type=JudgedOutput,
        start_to_close_timeout=timeout,
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
        retry_policy=OFFERED_RETRIES if input.offer else LOST_WORKER_RETRIES,
        summary=_summary(input, place),
    )


def _summary(input: activities.JudgeInput, place: str) -> str:
    what = f"{input.point} {'check' if input.point == 'approval' else 'guardrail'}"
    if input.request is None:
        return f"{place} · {what}"
    return about_call(what, input.request.name, input.request.arguments)
