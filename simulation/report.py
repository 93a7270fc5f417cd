"""Many schedules, on all cores, and what they have shown together."""

from __future__ import annotations

import gc
import multiprocessing
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from .schedule import run_schedule

BATCH = 50
"""Schedules between two garbage collections, and between two messages of a process."""


@dataclass
class Report:
    """What became of many schedules."""

    schedules: int = 0
    events: int = 0
    faults: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    broken: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """For each broken invariant: the seeds, and how it is broken."""

    def add(self, other: Report) -> None:
        """Add what other schedules have shown."""
        self.schedules += other.schedules
        self.events += other.events
        self.faults += other.faults
        self.ends += other.ends
        for name, seeds in other.broken.items():
            self.broken.setdefault(name, []).extend(seeds)


def run_batch(first: int, count: int, stop: bool = False) -> Report:
    """Run schedules with consecutive seeds; with `stop`, until one breaks an invariant."""
    report = Report()
    gc.disable()
    for seed in range(first, first + count):
        verdict = run_schedule(seed)
        report.schedules += 1
        report.events += verdict.events
        report.faults += verdict.faults
        report.ends.update(verdict.ends)
        for name, text in verdict.violations:
            report.broken.setdefault(name, []).append((seed, text))
        if stop and report.broken:
            break
    gc.enable()
    gc.collect()
    return report


def run_many(first: int, count: int, processes: int, *, stop: bool = False) -> Report:
    """Run that many schedules, in that many processes; with `stop`, until one breaks an
    invariant.
    """
    batches = [
        (start, min(BATCH, first + count - start), stop)
        for start in range(first, first + count, BATCH)
    ]
    report = Report()
    for each in _all(batches, processes):
        report.add(each)
        if stop and report.broken:
            break
    for seeds in report.broken.values():
        seeds.sort()
    return report


def _all(batches: list[tuple[int, int, bool]], processes: int) -> Iterator[Report]:
    gc.freeze()
    if processes == 1 or len(batches) == 1:
        yield from (run_batch(*batch) for batch in batches)
        return
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap_unordered(_run_batch, batches)


def _run_batch(batch: tuple[int, int, bool]) -> Report:
    return run_batch(*batch)
