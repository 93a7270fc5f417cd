"""What Temporal shows of a session: its current details."""

from __future__ import annotations

from datetime import UTC, datetime

from temporalio import workflow

from ...excerpt import counted
from ...markdown import code, link
from ...protocol.session import SessionStatus
from ...protocol.shown import shown_name
from ..iteration_table import run_path
from .turns import Turns


def show(turns: Turns, status: SessionStatus) -> None:
    """Write the current details; they cost no event of the history."""
    lines = [f"- {code(shown_name(turns.setup.agent))} · {counted(turns.last, 'turn')}", f"- {_does(turns, status)}"]
    if status.queued:
        lines.append(f"- {counted(status.queued, 'message')} {'waits' if status.queued == 1 else 'wait'} for a turn")
    if status.status == "closing":
        lines.append("- **closes** when these have ended: it takes no more messages")
    workflow.set_current_details("\n".join(lines))


def _does(turns: Turns, status: SessionStatus) -> str:
    if status.status == "closed":
        return f"**closed** {_date(workflow.time())}"
    if (turn := turns.current) is not None:
        run = link(turn.run_id, run_path(workflow.info().namespace, turn.run_id))
        return f"**runs** {run} since {_date(turn.since)}"
    return f"**waits for a message** since {_date(workflow.time())}"


def _date(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
