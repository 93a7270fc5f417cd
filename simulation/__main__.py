"""Simulates runs of perdure: `make simulate`, or one schedule with its trace, by `--seed`."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time

from .clock import use_virtual_time
from .invariants import INVARIANTS
from .report import Report, run_many
from .schedule import run_schedule
from .tools import install_model


def main() -> int:
    """Run schedules, and return the exit code: 1 if an invariant is broken."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("-n", type=int, default=1000, help="number of schedules (1000)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed (0)")
    parser.add_argument("--seed", type=int, help="run this schedule alone, and print its trace")
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count() or 1, help="processes (one per core)"
    )
    parser.add_argument("--stop", action="store_true", help="end with the first broken invariant")
    parser.add_argument("--json", action="store_true", help="print one object for programs")
    parser.add_argument("--list", action="store_true", help="print the invariants")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    use_virtual_time()
    install_model()
    if arguments.list:
        print("\n".join(f"{name}: {sentence}" for name, sentence in INVARIANTS.items()))
        return 0
    if arguments.seed is not None:
        return trace(arguments.seed)
    begun = time.perf_counter()
    report = run_many(arguments.first, arguments.n, arguments.processes, stop=arguments.stop)
    if arguments.json:
        broken = {name: seeds[0][0] for name, seeds in report.broken.items()}
        print(json.dumps({"schedules": report.schedules, "broken": broken}))
    else:
        show(report, time.perf_counter() - begun)
    return bool(report.broken)


def trace(seed: int) -> int:
    """Print the trace of one schedule, and return the exit code."""
    verdict = run_schedule(seed, traced=True)
    print("\n".join(verdict.lines))
    for name, text in verdict.violations:
        print(f"\n{name}: {INVARIANTS[name]}\n  {text}")
    return bool(verdict.violations)


def show(report: Report, seconds: float) -> None:
    """Print what many schedules have shown."""
    ends = ", ".join(f"{count} {name}" for name, count in sorted(report.ends.items()))
    print(
        f"{report.schedules:,} schedules in {seconds:.0f} s ({report.schedules / seconds:.0f} a "
        f"second): {report.events:,} events, {report.faults:,} lost or frozen processes; "
        f"links: {ends}"
    )
    for name, seeds in report.broken.items():
        count, (seed, text) = len(seeds), seeds[0]
        print(f"\n{name}, in {count} schedules: {INVARIANTS[name]}\n  {text[:1000]}")
        print(f"  again: python -m simulation --seed {seed}")


if __name__ == "__main__":
    sys.exit(main())
