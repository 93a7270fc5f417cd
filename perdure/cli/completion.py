"""The ids of runs, for the shell to complete: those of a server that answers at once, none where there is none."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

import typer

from ..protocol.names import SESSION_WORKFLOW, WORKFLOW

SECONDS = 2.0
"""Whoever presses the tab key waits no longer."""
LIMIT = 30


def choose_server(chosen: Mapping[str, Any]) -> None:
    """Make the options that name the server the environment of this process, which everything below reads."""
    variables = {"address": "TEMPORAL_ADDRESS", "namespace": "TEMPORAL_NAMESPACE", "data_dir": "PERDURE_HOME"}
    for option, variable in variables.items():
        if value := chosen.get(option):
            os.environ[variable] = str(value)


def run_ids(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The runs whose ids begin so, the newest first, each with its agent and status; never raises."""
    return _complete(context, incomplete, _query())


def open_run_ids(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Those of them that have not ended; never raises."""
    return _complete(context, incomplete, f"{_query()} AND ExecutionStatus = 'Running'")


def session_ids(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The sessions whose ids begin so, the newest first, each with its agent and status; never raises."""
    return _complete(context, incomplete, _query(SESSION_WORKFLOW))


def _query(workflow: str = WORKFLOW) -> str:
    from .ls_query import Filters

    return Filters(workflow=workflow).query()


def _complete(context: typer.Context, incomplete: str, query: str) -> list[tuple[str, str]]:
    choose_server(context.parent.params if context.parent else {})
    try:
        from ..client.connection import environment_names_a_server
        from ..client.embedded.state import use_running

        if not environment_names_a_server() and use_running() is None:
            return []  # no server is started for this
        from ..protocol.search_attributes import quoted

        begins = f" AND WorkflowId STARTS_WITH {quoted(incomplete)}" if incomplete else ""
        return asyncio.run(asyncio.wait_for(_found(f"{query}{begins}"), SECONDS))
    except Exception:
        # Nothing may be written while the shell completes a line.
        return []


async def _found(query: str) -> list[tuple[str, str]]:
    from ..client.connection import connect
    from ..protocol.search_attributes import AGENT

    client = await connect()
    return [
        (run.id, f"{run.typed_search_attributes.get(AGENT, 'run')}, {run.status.name.lower() if run.status else '?'}")
        async for run in client.list_workflows(query, limit=LIMIT)
    ]
