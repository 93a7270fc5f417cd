"""The short form of `make simulate`: schedules with fixed seeds, each of which keeps all invariants."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from simulation.defects import defects, find
from simulation.invariants import INVARIANTS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "internals" / "simulation.md"


def simulated(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, in a process of its own: virtual time is for good."""
    return subprocess.run(
        [sys.executable, "-m", "simulation", *arguments], cwd=ROOT, capture_output=True, text=True
    )


def test_schedules_keep_the_invariants() -> None:
    ended = simulated("-n", "100", "--processes", "2")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.startswith("100 schedules")


def test_a_seed_gives_the_same_trace_again() -> None:
    first, second = simulated("--seed", "65"), simulated("--seed", "65")
    assert first.stdout == second.stdout
    assert "server: run#1 starts" in first.stdout


def test_a_planted_defect_is_found() -> None:
    (planted,) = defects("a round records only the first result")
    assert "VALID" in find(planted).broken


def test_each_defect_has_its_place() -> None:
    misplaced = [
        each.name for each in defects() if (ROOT / each.file).read_text().count(each.old) != 1
    ]
    assert misplaced == []


def test_the_page_has_the_sentence_of_each_invariant() -> None:
    listed = [f"{name}: {sentence}" for name, sentence in INVARIANTS.items()]
    rows = re.findall(r"^\| `([A-Z_]+)` \| (.+) \|$", PAGE.read_text(), re.M)
    assert [f"{name}: {sentence}" for name, sentence in rows] == listed
