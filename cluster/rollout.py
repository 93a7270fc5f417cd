"""`python -m cluster.rollout`: versions of the workers are rolled out while runs work and wait, and
three faulty ones are taken back; then both checkers, and those of versions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import sys
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from benchmarks.stage import server_at
from perdure.client import RunHandle, connect
from perdure.client.connection import register_search_attributes
from perdure.client.embedded.launch import find_binary

from . import client as cluster
from .chaos import agents
from .chaos.check_effects import Checked, read
from .chaos.histories import events, executions
from .chaos.load import Load
from .chaos.processes import Process, Processes
from .chaos.verdict import verdict
from .home import HOME

DEPLOYMENT = "rollout"
SHAPES = ("plain", "approval", "steered", "child", "session", "question", "handoff", "forked")
FAULTY = {"raises": "broken", "lacks-its-tools": "worker", "does-not-start": ""}
"""A faulty version → its kind of process."""
RAMP_PERCENT = 50
PATIENCE_SECONDS = 240.0
FIRST_TASK_SECONDS = 10.0
"""Within these, a workflow task ends or times out."""
DRAINAGE = ("RefreshInterval", "VisibilityGracePeriod")


class PatientLoad(Load):
    """Decides about a run only when its version has been replaced twice, or at the end."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.may_decide: dict[str, asyncio.Event] = {}
        """By the first part of a run's id."""

    async def _pending(self, handle: RunHandle) -> Any:
        waiting = await super()._pending(handle)
        await self.may_decide[handle.id.partition("-")[0]].wait()
        return waiting


class Rollout:
    def __init__(self, temporal: Client, folder: Path, given: argparse.Namespace) -> None:
        self._client, self._folder, self._given = temporal, folder, given
        self.processes = Processes(folder, given.seed, services_port=19011)
        self._load = PatientLoad(temporal, folder, self.processes.services, "")
        self._numbers = iter(range(given.runs))
        self._playing: list[asyncio.Task[None]] = []
        self._workers: dict[str, Process] = {}
        self.seconds: dict[str, float] = {}
        """Version → until it was current."""
        self._moved: set[str] = set()
        """Runs that were taken away from a faulty version."""
        self._quiet_since = 0.0
        self.refused = ""
        """What the server answered for a version whose workers do not start."""

    @property
    def moved(self) -> int:
        return len(self._moved)

    async def run(self) -> None:
        """Roll all versions out, and return when all runs have ended and old versions are
        drained.
        """
        versions = [str(number) for number in range(1, self._given.versions + 1)]
        share = self._given.runs // len(versions)
        faulty = iter(FAULTY)
        for number, build in enumerate(versions):
            began = time.monotonic()
            first = f"v{build}"
            self._load.may_decide[first] = asyncio.Event()
            await self._start(build)
            if number:
                await self._ramp(build)
                self._begin(first, share // 2)
            await self._set("current", build)
            self.seconds[build] = round(time.monotonic() - began, 1)
            self._begin(first, share - (share // 2 if number else 0))
            await self._until(partial(self._have_ended, share * number // 2))
            if number > 1:
                self._load.may_decide[f"v{versions[number - 2]}"].set()
            if number % 3 == 1 and (name := next(faulty, None)):
                await self._fault(name, first, share)
            await self._retire(build)
        for event in self._load.may_decide.values():
            event.set()
        await asyncio.gather(*self._playing)
        await self._until(lambda: self._retire(versions[-1]))

    def _begin(self, first: str, count: int) -> None:
        for _, number in zip(range(count), self._numbers, strict=False):
            shape = SHAPES[number % len(SHAPES)]
            play = self._load.play(shape, f"{first}-{number:03d}-{shape}")
            self._playing.append(asyncio.create_task(play))

    def _have_ended(self, count: int) -> bool:
        return sum(task.done() for task in self._playing) > count

    async def _start(self, build: str, kind: str = "worker", **environment: str) -> None:
        named = {"TEMPORAL_DEPLOYMENT_NAME": DEPLOYMENT, "TEMPORAL_WORKER_BUILD_ID": build}
        number = len(self._workers) + 1
        self._workers[build] = await self.processes.start(kind, number, **named, **environment)

    async def _fault(self, build: str, first: str, share: int) -> None:
        """Send new runs to a faulty version, and take it back as the manual describes."""
        if not (kind := FAULTY[build]):
            code, self.refused = await self._temporal(
                *("worker", "deployment", "set-current-version"), *_named(build), "--yes"
            )
            assert code, "the server has made a version current that no worker has"
            return
        await self._start(build, kind, CHAOS_WITHOUT_TOOLS="yes")
        await self._ramp(build)
        self._load.may_decide.setdefault(first, asyncio.Event())
        self._begin(first, max(share // 2, 4))
        await self._until(lambda: self._is_stuck(build))
        await self._must(
            *("worker", "deployment", "set-ramping-version"), *_named(build), "--delete", "--yes"
        )
        self._quiet_since = time.monotonic()
        await self._until(partial(self._has_moved_all, build))
        self._workers[build].send(signal.SIGKILL)

    async def _has_moved_all(self, build: str) -> bool:
        """Move the runs of the version to the current one; return whether it has none any more.
        The first task of some was under way when their version was taken back.
        """
        where = f"TemporalWorkerDeploymentVersion='{DEPLOYMENT}:{build}'"
        query = f"{where} AND ExecutionStatus='Running'"
        found = {run.id async for run in self._client.list_workflows(query)}
        if found - self._moved:
            self._moved |= found
            await self._must(
                *("workflow", "update-options", "--query", query, "--yes"),
                *("--versioning-override-behavior", "auto_upgrade", "--reason", "a faulty version"),
            )
            self._quiet_since = time.monotonic()
        return time.monotonic() - self._quiet_since > FIRST_TASK_SECONDS

    async def _is_stuck(self, build: str) -> bool:
        """Return whether a workflow task has failed on that version, or one of its runs waits."""
        if build != "raises":
            where = f"TemporalWorkerDeploymentVersion='{DEPLOYMENT}:{build}'"
            return (await self._client.count_workflows(where)).count > 1
        log = self._folder / f"broken-{len(self._workers)}.log"
        return log.read_text().count("the fault of this version") > 1

    async def _retire(self, current: str) -> bool:
        """End the workers of drained versions; return whether all but the current one are."""
        for build, worker in [*self._workers.items()]:
            if build == current or worker.running.returncode is not None:
                continue
            code, text = await self._temporal(
                *("worker", "deployment", "describe-version"), *_named(build), "--output", "json"
            )
            state = "" if code else str(json.loads(text).get("drainageInfo", {}))
            if "drained" in state.lower().replace("_", ""):
                worker.send(signal.SIGTERM)
                await worker.running.wait()
        left = [w for b, w in self._workers.items() if b != current]
        return all(worker.running.returncode is not None for worker in left)

    async def _ramp(self, build: str) -> None:
        await self._set("ramping", build, "--percentage", str(RAMP_PERCENT))

    async def _set(self, what: str, build: str, *more: str) -> None:
        """As soon as one of its workers polls."""
        command = ("worker", "deployment", f"set-{what}-version", *_named(build), *more, "--yes")

        async def is_set() -> bool:
            return not (await self._temporal(*command))[0]

        await self._until(is_set)

    async def _must(self, *words: str) -> None:
        code, text = await self._temporal(*words)
        if code:
            raise RuntimeError(f"temporal {' '.join(words)}: {text}")

    async def _temporal(self, *words: str) -> tuple[int, str]:
        """Temporal's own command: its exit code and output."""
        target = self._client.service_client.config.target_host
        process = await asyncio.create_subprocess_exec(
            *(str(find_binary()), *words, "--address", target),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        return process.returncode or 0, output.decode().strip()

    async def _until(self, holds: Any) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            found = holds()
            if await found if asyncio.iscoroutine(found) else found:
                return
            if time.monotonic() > end:
                raise TimeoutError(f"not within {PATIENCE_SECONDS:g} s: see {self._folder}")
            await asyncio.sleep(0.5)


def _named(build: str) -> tuple[str, ...]:
    return ("--deployment-name", DEPLOYMENT, "--build-id", build)


async def check_versions(temporal: Client, folder: Path, checked: Checked) -> dict[str, set[str]]:
    """Each execution has one version, unless it was moved; tools are executed in one of those of
    their run. Return the versions of each workflow.
    """
    versions: dict[str, set[str]] = {}
    async for execution in executions(temporal):
        found = await events(temporal, execution)
        own = {
            event.workflow_task_completed_event_attributes.deployment_version.build_id
            for event in found
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
        }
        moved = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_OPTIONS_UPDATED
        is_moved = any(event.event_type == moved for event in found)
        id = execution.workflow_id
        if DEPLOYMENT in str(found[0]) or any(own):
            one = len(own) == 1 or is_moved
            checked.require(one, "an execution stays with its version", f"{id}: {own}")
            checked.require("raises" not in own, "a faulty version completes no task", id)
            versions.setdefault(id, set()).update(own)
    for entry in read(folder, "diary"):
        if run := entry.get("run"):
            right = entry["build"] in versions.get(run, ())
            checked.require(right, "a tool is executed in its run's version", f"{run}: {entry}")
    return versions


async def main(given: argparse.Namespace) -> int:
    async with AsyncExitStack() as stack:
        if given.embedded:
            settings = tuple(f'matching.wv.VersionDrainageStatus{each}="5s"' for each in DRAINAGE)
            os.environ["TEMPORAL_ADDRESS"] = await stack.enter_async_context(
                server_at(settings=settings)
            )
        else:
            os.environ |= cluster.environment(cluster.reset()["profile"])
        return await _rolled_out(given)


async def _rolled_out(given: argparse.Namespace) -> int:
    folder = HOME / "rollout"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    temporal = await connect()
    await register_search_attributes(temporal)
    rollout = Rollout(temporal, folder, given)
    agents.write(folder, rollout.processes.services)
    began = time.monotonic()
    try:
        await rollout.processes.start("services")
        await asyncio.sleep(2)  # Workers read the API's description.
        await rollout.run()
        seconds = time.monotonic() - began
        checked, replayed = await verdict(temporal, folder)
        versions = await check_versions(temporal, folder, checked)
    finally:
        await rollout.processes.end()
    started = [each for each in read(folder, "load") if each["event"] in ("started", "turn")]
    report = {
        "minutes": round(seconds / 60, 1),
        "runs and turns": len(started),
        "versions": given.versions,
        "faulty versions": min(len(FAULTY), (given.versions + 1) // 3),
        "seconds until a version was current": rollout.seconds,
        "runs that ended in another version than they began": sum(
            len(each) > 1 for each in versions.values()
        ),
        "runs taken from a faulty version": rollout.moved,
        "a version without workers": rollout.refused[:200],
        "histories replayed": replayed,
        "looked at": dict(sorted(checked.counts.items())),
        "wrong": checked.wrong,
    }
    text = json.dumps(report, indent=1)
    (folder / "report.json").write_text(text)
    print(text, flush=True)
    return 1 if checked.wrong else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m cluster.rollout", description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--versions", type=int, default=10)
    parser.add_argument("--embedded", action="store_true", help="a dev server, not the cluster")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(_arguments())))
