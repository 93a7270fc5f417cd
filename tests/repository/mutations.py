"""Shows that the tests notice planted faults: `make mutations`.

`mutations.toml` has faults of one line each, with the tests that must notice them. Each fault is
planted in a copy of the repository, in which these tests must then fail.

Usage: python -m tests.repository.mutations [PART OF A FILE'S NAME]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = 900.0
PASSED, FAILED, TOO_LONG = 0, 1, 124


def main() -> int:
    """Plant the faults one by one, print a line for each, and return the number unnoticed."""
    part = sys.argv[1] if sys.argv[1:] else ""
    faults = tomllib.loads(Path(__file__).with_name("mutations.toml").read_text())["fault"]
    chosen = [fault for fault in faults if part in fault["file"]]
    unnoticed = 0
    with tempfile.TemporaryDirectory(prefix="perdure-mutations-") as folder:
        copy = _copied(Path(folder))
        for number, fault in enumerate(chosen, 1):
            line, outcome = _outcome(copy, fault)
            unnoticed += outcome != FAILED
            found = {FAILED: "noticed", PASSED: "UNNOTICED"}.get(outcome, f"pytest exit {outcome}")
            print(f"{number:3} {found:12} {fault['file']}:{line}", flush=True)
    print(f"{len(chosen) - unnoticed} of {len(chosen)} noticed")
    return unnoticed


def _copied(folder: Path) -> Path:
    names = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")
    for name in filter(None, names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


def _outcome(copy: Path, fault: dict[str, str]) -> tuple[int, int]:
    """Return the fault's line and pytest's exit status; `TOO_LONG` is no evidence. Raises ValueError for a fault that its file
    no longer has a place for."""
    file = copy / fault["file"]
    right = file.read_text()
    if right.count(fault["old"]) != 1:
        raise ValueError(f"expected {fault['old']!r} once in {fault['file']}: change the fault")
    file.write_text(right.replace(fault["old"], fault["new"]))
    try:
        asked = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            *fault["tests"],
        ]
        env = os.environ | {"PYTHONPATH": str(copy)}
        ran = subprocess.run(asked, cwd=copy, env=env, capture_output=True, timeout=SECONDS)
        return right[: right.index(fault["old"])].count("\n") + 1, ran.returncode
    except subprocess.TimeoutExpired:
        return 0, TOO_LONG
    finally:
        file.write_text(right)


if __name__ == "__main__":
    sys.exit(main())
