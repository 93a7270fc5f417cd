"""Shows that the simulation finds planted defects: `make simulate-defects`.

Each defect of `defects.toml` is planted in a copy of the package, over which schedules then run
until one breaks an invariant.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPIED = ("perdure", "simulation")


@dataclass
class Defect:
    """One planted defect: one line of the package, changed."""

    name: str
    file: str
    old: str
    new: str
    schedules: int = 3000
    """The number of schedules in which it must be found."""


@dataclass
class Found:
    """What the simulation has found of one defect."""

    defect: Defect
    broken: dict[str, int]
    """The broken invariants of the first schedule that breaks one, and its seed."""
    schedules: int
    seconds: float

    @property
    def row(self) -> str:
        """The row of the table in `docs/internals/simulation.md`."""
        names = ", ".join(f"`{name}`" for name in sorted(self.broken)) or "not found"
        file = self.defect.file.removeprefix("perdure/")
        return f"| {self.defect.name} | `{file}` | {names} | {self.schedules:,} |"


def defects(part: str = "") -> list[Defect]:
    """Return the defects whose name or file contains the text."""
    known = tomllib.loads(Path(__file__).with_name("defects.toml").read_text())["defect"]
    return [Defect(**each) for each in known if part in each["name"] or part in each["file"]]


def find(defect: Defect) -> Found:
    """Plant the defect in a copy of the package, and run schedules until one breaks an invariant.

    Raises ValueError if the package no longer has the line, RuntimeError if the command fails.
    """
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="perdure-defect-") as folder:
        for name in COPIED:
            shutil.copytree(ROOT / name, Path(folder) / name, ignore=_not_copied)
        file = Path(folder) / defect.file
        right = file.read_text()
        if right.count(defect.old) != 1:
            raise ValueError(f"expected {defect.old!r} once in {defect.file}: change the defect")
        file.write_text(right.replace(defect.old, defect.new))
        asked = ["--stop", "--json", "-n", str(defect.schedules), "--processes", "1"]
        ended = subprocess.run(
            [sys.executable, "-m", "simulation", *asked],
            cwd=folder,
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"},
        )
    if ended.returncode not in (0, 1) or not ended.stdout:
        raise RuntimeError(f"{defect.name}: {ended.stdout[-500:]}{ended.stderr[-1500:]}")
    told = json.loads(ended.stdout)
    return Found(defect, told["broken"], told["schedules"], time.perf_counter() - begun)


def _not_copied(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if name == "__pycache__"}


def main() -> int:
    """Plant the defects, print a row for each, and return the number that was not found."""
    parser = argparse.ArgumentParser(prog="python -m simulation.defects", description=__doc__)
    parser.add_argument("part", nargs="?", default="", help="a part of a defect's name or file")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    chosen = defects(arguments.part)
    missed = 0
    print("| defect | file | broken invariants | schedules |\n| --- | --- | --- | --- |")
    with ThreadPoolExecutor(arguments.processes) as pool:
        for found in pool.map(find, chosen):
            missed += not found.broken
            print(found.row, flush=True)
    print(f"\n{len(chosen) - missed} of {len(chosen)} found")
    return missed


if __name__ == "__main__":
    sys.exit(main())
