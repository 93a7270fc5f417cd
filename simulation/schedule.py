"""Runs one schedule from its seed, and judges it."""

from __future__ import annotations

from dataclasses import dataclass, field

from .invariants import judge
from .world import World


@dataclass
class Verdict:
    """What became of one schedule."""

    seed: int
    violations: list[tuple[str, str]]
    """The broken invariants, and how each is broken."""
    lines: list[str] = field(default_factory=list)
    """The trace."""
    links: int = 0
    events: int = 0
    faults: int = 0
    ends: list[str] = field(default_factory=list)


def run_schedule(seed: int, *, traced: bool = False, faults: float = 1.0) -> Verdict:
    """Run the schedule of that seed to its end, and return its verdict."""
    world = World(seed, traced=traced, faults=faults)
    try:
        world.run()
        judge(world)
    finally:
        world.end()
    return Verdict(
        seed,
        world.violations,
        world.lines or [],
        len(world.links),
        sum(len(each.events) for each in world.links),
        world.faults,
        [each.last.kind for each in world.links],
    )
