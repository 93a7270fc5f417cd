"""What an operator meets in a day, on real processes: what is seen, what mends it, and that nothing
is lost.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure.testing import ScriptedReply, ScriptedRequest, asks, says

from ..support.agents import Scripted
from ..support.day import NAME, day
from ..support.waiting import wait_for


async def key_revoked(folder: Path, scripted: Scripted, runs: int) -> None:
    """The provider refuses the key of all runs; the server is killed before somebody lets them go
    on.
    """
    renewed = False

    def provider(request: ScriptedRequest) -> ScriptedReply:
        if request.step == 0:
            return asks("note")
        return says("done") if renewed else ScriptedReply(status=401)

    model = scripted(provider)
    async with day(folder) as it, it.worker():
        await it.start(model, runs, on_failure="hold")
        await it.counts("PerdureStatus = 'held'", runs)
        await it.metric("perdure_runs_held", runs)
        assert "held (credentials) since" in await it.first_status()
        assert it.log.read_text().count("is held (credentials)") == runs
        await it.server.kill()
        await it.server.start()
        renewed = True
        would = await it.cli("go-on", "--agent", NAME, "--dry-run", "--json")
        assert json.loads(would.stdout)["count"] == runs, would.stdout
        begun = time.monotonic()
        let = await it.cli("go-on", "--agent", NAME, "--json")
        said = json.loads(let.stdout)
        assert (let.code, said["count"], said["failed"]) == (0, runs, []), let.stderr
        print(
            f"{runs} held runs were let go on in {time.monotonic() - begun:.1f} s", file=sys.stderr
        )
        await it.require_all_done_once()
        print(f"and had ended after {time.monotonic() - begun:.1f} s", file=sys.stderr)
        await it.metric("perdure_runs_held", 0)
    steps = Counter(request.step for request in model.requests)
    assert steps == {0: runs, 1: 2 * runs}, "one refused call and one more each"


async def test_a_revoked_key(tmp_path: Path, scripted: Scripted) -> None:
    await key_revoked(tmp_path, scripted, 5)


@pytest.mark.trial
@pytest.mark.timeout(600)
async def test_200_held_runs_go_on_by_one_command_after_the_server_was_killed(
    tmp_path: Path, scripted: Scripted
) -> None:
    await key_revoked(tmp_path, scripted, 200)


async def limited(folder: Path, scripted: Scripted, runs: int, seconds: float) -> None:
    """The provider refuses all calls for so long: they wait together, and go on by themselves or by
    one command.
    """
    until = [float("inf")]

    def provider(request: ScriptedRequest) -> ScriptedReply:
        if request.step == 0:
            return asks("note")
        is_over = time.monotonic() > until[0]
        return says("done") if is_over else ScriptedReply(status=429, headers={"retry-after": "1"})

    model = scripted(provider)
    async with day(folder) as it, it.worker():
        await it.start(model, runs, on_failure="hold")

        async def is_seen() -> bool:
            return "rate_limit" in await it.first_status()

        await wait_for(is_seen)
        assert "wait because it refuses them" in it.log.read_text()
        until[0] = time.monotonic() + seconds
        await asyncio.sleep(seconds)
        refused = sum(request.step == 1 for request in model.requests)

        async def are_settled() -> bool:
            open_ones = (
                f"PerdureAgent = '{NAME}' AND ExecutionStatus = 'Running' AND PerdureStatus != "
                "'held'"
            )
            return (await it.client.count_workflows(open_ones)).count == 0

        await wait_for(are_settled, timeout=600, every=0.5)
        held = (
            await it.client.count_workflows(f"PerdureAgent = '{NAME}' AND PerdureStatus = 'held'")
        ).count
        if held:
            assert (await it.cli("go-on", "--agent", NAME)).code == 0
        await it.require_all_done_once()
        print(
            f"{refused} refused calls of {runs} runs in {seconds:g} s; {held} were held",
            file=sys.stderr,
        )
    assert refused < 3 * runs + seconds


async def test_a_rate_limit(tmp_path: Path, scripted: Scripted) -> None:
    await limited(tmp_path, scripted, runs=6, seconds=3.0)


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A file system of its own; skips the test where this user may not have one."""
    folder.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(folder)], check=False
    ).returncode:
        pytest.skip("this user can't mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Write until there is no room."""
    filling = disk / "filling"
    with filling.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(65536))
        except OSError:
            pass
    return filling


@pytest.mark.trial
async def test_the_disk_of_the_server_is_full(tmp_path: Path, scripted: Scripted) -> None:
    model = scripted(lambda request: asks("note") if request.step == 0 else says("done"))
    with small_disk(tmp_path / "disk", 64) as disk:
        async with day(tmp_path / "day", disk) as it:
            await it.start(model, 10)
            filling = fill(disk)
            async with it.worker():
                await asyncio.sleep(10)
                seen = await it.cli("doctor")
                assert (
                    seen.code,
                    "error: the server answers, but can't record anything" in seen.stdout,
                ) == (1, True)
                assert "can't be reached" not in (await it.cli("ls", "--agent", NAME)).stderr
                assert not any(request.step for request in model.requests), (
                    "no step is taken that can't be recorded"
                )
                filling.unlink()
                await it.require_all_done_once()
