"""`perdure doctor`: examines a server, its workers and its runs, and names the command that fixes
each fault.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from ...activities.pollers import POLL_SECONDS
from ...client.connection import server_time
from ...client.embedded import launch
from ...json_types import JsonObject
from ...settings.agent_file import is_cloud
from ...text import count_of
from ..console import answer, say
from ..given import Given
from ..problems import DONE, FAILED
from ..server_connection import ServerConnection, connect_to_server
from .findings import Finding
from .probe import probed_settings
from .runs import failing_tasks, held_runs, of_queue
from .server import examined_server
from .workers import QueueState, ask_workers, queue_states

Report = JsonObject


async def doctor(given: Given) -> int:
    """Print the findings; return the exit code, 1 for an error."""
    async with connect_to_server() as server:
        report, findings = await examined(server, given.task_queue, given.limit, probe=given.probe)
    if given.as_json:
        answer({**report, "findings": [finding.as_json() for finding in findings]})
    else:
        _print_report(report, findings)
    return FAILED if any(finding.level == "error" for finding in findings) else DONE


async def examined(
    server: ServerConnection,
    queues: Sequence[str] = (),
    limit: int = 500,
    *,
    probe: bool = True,
    within: float | None = None,
    clock: Callable[[], float] = time.time,
) -> tuple[Report, list[Finding]]:
    """Return the server, its queues and the findings, errors first. Raises `RPCError`.

    A worker that has not polled within so many seconds is gone; None is what the server's polls
    take.
    """
    client = server.client
    within = within or (1.5 * launch.POLL_SECONDS if server.embedded else POLL_SECONDS)
    about, findings = await examined_server(client, clock)
    states: list[QueueState] = []
    if about["retentionHours"] is not None:
        states = await queue_states(client, queues, limit)
        measurable = probe and not is_cloud(client.service_client.config.target_host)
        now = await server_time(client, clock=clock)
        asked = [
            failing_tasks(client, limit),
            held_runs(client, states),
            *([probed_settings(client)] if measurable else []),
        ]
        _, found = await asyncio.gather(ask_workers(client, states, now), asyncio.gather(*asked))
        for state in states:
            findings += of_queue(state, within)
        findings += [each for several in found for each in several]
    report = {"server": about, "queues": [_queue(state, within) for state in states]}
    return report, sorted(findings, key=lambda finding: finding.level)


def _queue(state: QueueState, within: float) -> Report:
    current = str(state.current) if state.current else None
    workers = [worker.as_json(within) for worker in state.workers]
    return {
        "name": state.name,
        "openRuns": len(state.runs),
        "currentVersion": current,
        "workers": workers,
    }


def _print_report(report: Report, findings: Sequence[Finding]) -> None:
    about = report["server"]
    answer(
        f"server {about['address']}, version {about['version']}, namespace {about['namespace']!r}"
    )
    for queue in report["queues"]:
        current = f", current version {queue['currentVersion']}" if queue["currentVersion"] else ""
        answer(f"task queue {queue['name']!r}: {count_of(queue['openRuns'], 'open run')}{current}")
        for worker in queue["workers"]:
            answer(f"  worker {_worker_line(worker)}")
    for finding in findings:
        answer(f"{finding.level}: {finding.text}")
        if finding.do:
            answer(f"  → {finding.do}")
    errors = sum(finding.level == "error" for finding in findings)
    warnings = len(findings) - errors
    if not findings:
        say("No faults found.", "strong")
    else:
        say(
            f"{count_of(errors, 'error')}, {count_of(warnings, 'warning')}",
            "bad" if errors else "strong",
        )


def _worker_line(worker: Report) -> str:
    version = f" of version {worker['version']}" if worker["version"] else ""
    if not worker["has"]:
        polled = f"it polled {worker['polledBefore']:g} s before"
        state = "gone" if worker["isGone"] else "does not answer, ended or frozen"
        return f"{worker['identity']}{version}: {state} ({polled})"
    tools = ", ".join(worker["has"]["tools"]) or "none"
    return f"{worker['identity']}{version}: perdure {worker['has']['perdure']}, tools: {tools}"
