"""The Temporal names of the workflow's signals, updates, queries and activities."""

from __future__ import annotations

WORKFLOW = "perdure.AgentRun"
STEER = "steer"
APPROVAL = "approval"
"""A signal, which is dropped if it does not fit, and an update with the same argument, which
returns an answer."""
REFUSED = "approval_refused"
"""Error type: the decision of an update was refused. The details are an object with the reason's
`kind`."""
GO_ON = "go_on"
"""Resumes a held run: a signal, which is dropped if it does not fit, and an update, which returns
an answer."""
GO_ON_REFUSED = "go_on_refused"
"""Error type: the run was not resumed. The details are an object with the reason's `kind`."""
COMPLETE = "complete"
"""An update of a run by which another system finishes one of its tool calls."""
COMPLETION_REFUSED = "completion_refused"
"""Error type: the call was not finished. The details are an object with the reason's `kind`."""
SESSION_WORKFLOW = "perdure.Session"
SEND = "send"
"""An update of a session that delivers a message."""
CLOSE = "close"
"""An update of a session, after which it accepts no more messages."""
HAND_OVER = "hand_over"
"""A signal to a session with a part of the messages that one of its turns added to the
conversation."""
NOTE = "note"
"""A signal to a session that adds an event to the session's own."""
NOT_TAKEN = "message_not_taken"
"""Error type: a session refused a message. The details are an object with the reason's `kind`."""
PERMIT = "perdure.permit"
"""An activity without effect: Temporal limits how many of them a rate queue hands out per
second."""
IS_POLLED = "perdure.is_polled"
PUSH = "push"
"""A signal to a run that adds an A2A client's push notification target."""
NOTICE_WORKFLOW = "perdure.Notice"
"""The workflow that notifies webhooks of a run's state, and retries until they answer."""
NOTIFY = "perdure.notify"
"""The activity that starts `NOTICE_WORKFLOW`."""
SEND_NOTICE = "perdure.send_notice"
"""The activity by which `NOTICE_WORKFLOW` sends a notice to one webhook."""
WORKER_ACCOUNT = "perdure.worker_account"
"""The activity by which a worker describes itself, on its own queue (`own_queue`)."""
STATUS = "status"
EVENTS = "events"


def tool_queue(task_queue: str, tool: str) -> str:
    """Return the queue from which each worker takes at most as many calls of a tool at a time as it
    may execute.
    """
    return f"{task_queue}/tool/{tool}"


def own_queue(task_queue: str, identity: str) -> str:
    """Return the queue that a single worker of a task queue polls, on which it answers questions
    about itself.
    """
    return f"{task_queue}/worker/{identity}"


def postponed_signal(number: int) -> str:
    """Return the patch by which a workflow records that it reads this signal (by number) in a later
    task.
    """
    return f"perdure-postponed-signal-{number}"


def vouched_signal(number: int) -> str:
    """Return the patch by which a run records that this signed decision (by number, of those by
    signal) came from an authorised person.
    """
    return f"perdure-vouched-signal-{number}"


def dropped_signal(number: int) -> str:
    """Return the patch by which a workflow records that it did not read this signal (by number): it
    had no time, or its worker could not read it.
    """
    return f"perdure-dropped-signal-{number}"


FORK_OF = "forkOf"
"""The key in a fork's memo that holds the fork's origin (`ForkOf`)."""
