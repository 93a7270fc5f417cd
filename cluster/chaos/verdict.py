"""Both checkers, after the last fault."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import Replayer

from perdure.workflows.agent_run import AgentRun
from perdure.workflows.notices import Notice
from perdure.workflows.runner import OwnWorkflowRunner
from perdure.workflows.session.session import Session

from .check_effects import Checked, check
from .check_replay import replayed

PATIENCE_SECONDS = 60


async def verdict(temporal: Client, folder: Path) -> tuple[Checked, int]:
    """Return what the checkers found, and the number of histories that were replayed."""
    checked = await _patiently(temporal, folder)
    replayer = Replayer(
        workflows=[AgentRun, Session, Notice],
        data_converter=temporal.data_converter,
        unsandboxed_workflow_runner=OwnWorkflowRunner(),
        debug_mode=True,
    )
    count, wrong = await replayed(temporal, replayer)
    checked.wrong += wrong
    return checked, count


async def _patiently(temporal: Client, folder: Path) -> Checked:
    """Wait a minute for executions that are open."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            checked = await check(temporal, folder)
        except RPCError:
            if time.monotonic() > end:
                raise
        else:
            is_open = any(each.startswith("an execution is closed") for each in checked.wrong)
            if not is_open or time.monotonic() > end:
                return checked
        await asyncio.sleep(5)
