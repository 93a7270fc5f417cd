"""The client API: connect, start runs, follow and steer them, read their records."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # For type checkers; at runtime the table below has the same names.
    from ..errors import DeletionError as DeletionError
    from ..errors import SessionError as SessionError
    from ..events import RunEvent as RunEvent
    from ..options import RunOptions as RunOptions
    from ..protocol.outcome import RunResult as RunResult
    from ..protocol.outcome import RunStatus as RunStatus
    from ..tool_calls import PendingApproval as PendingApproval
    from .completing import complete_call as complete_call
    from .connection import connect as connect
    from .deletion import Deletion as Deletion
    from .deletion import Sweep as Sweep
    from .deletion import TenantDeletion as TenantDeletion
    from .deletion import delete_run as delete_run
    from .deletion import delete_tenant as delete_tenant
    from .deletion import sweep_storage as sweep_storage
    from .handle import RunHandle as RunHandle
    from .listing import RunSummary as RunSummary
    from .listing import list_runs as list_runs
    from .pauses import pause_runs as pause_runs
    from .pauses import pauses_in_force as pauses_in_force
    from .pauses import release_runs as release_runs
    from .runs import get_run as get_run
    from .runs import start_run as start_run
    from .schedules import create_schedule as create_schedule
    from .schedules import delete_schedule as delete_schedule
    from .schedules import get_schedule as get_schedule
    from .schedules import list_schedules as list_schedules
    from .schedules import pause_schedule as pause_schedule
    from .schedules import resume_schedule as resume_schedule
    from .schedules import run_schedule as run_schedule
    from .sessions.session import Session as Session
    from .sessions.session import session as session
else:
    from .._lazy import lazy_names

    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "..errors": "DeletionError SessionError",
            "..events": "RunEvent",
            "..options": "RunOptions",
            "..protocol.outcome": "RunResult RunStatus",
            "..tool_calls": "PendingApproval",
            ".pauses": "pauses_in_force pause_runs release_runs",
            ".completing": "complete_call",
            ".connection": "connect",
            ".deletion": "Deletion Sweep TenantDeletion delete_run delete_tenant sweep_storage",
            ".handle": "RunHandle",
            ".listing": "RunSummary list_runs",
            ".runs": "get_run start_run",
            ".schedules": "create_schedule delete_schedule get_schedule list_schedules "
            "pause_schedule resume_schedule run_schedule",
            ".sessions.session": "Session session",
        },
    )
