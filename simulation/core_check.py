"""Replays simulated histories with the SDK's own Core: `python -m simulation.core_check`.

What Core refuses shows a difference between it and the model, or a run that does not replay.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from perdure.worker import PerdurePlugin

from .clock import use_virtual_time
from .history import Execution
from .invariants import judge
from .protos import event_proto
from .tools import install_model
from .world import World


def histories(seed: int) -> list[tuple[str, list[HistoryEvent]]]:
    """Run a schedule, and return its histories as Temporal's API has them, by run id."""
    world = World(seed)
    try:
        world.run()
        judge(world)
        return [(each.run_id, _protos(each)) for each in world.links]
    finally:
        world.end()


def _protos(execution: Execution) -> list[HistoryEvent]:
    return [event_proto(execution, event) for event in execution.events]


async def check(made: Sequence[tuple[int, str, list[HistoryEvent]]]) -> int:
    """Replay the histories, print those that fail, and return their number."""
    failed = 0
    replayer = Replayer(workflows=[], plugins=[PerdurePlugin()])
    for seed, run_id, events in made:
        history = WorkflowHistory(run_id.partition("#")[0], events)
        result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
        if result.replay_failure is not None:
            failed += 1
            print(f"seed {seed}, {run_id}: {str(result.replay_failure)[:700]}", flush=True)
    print(f"{len(made)} histories: {failed} do not replay")
    return failed


def main() -> int:
    """Replay histories, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m simulation.core_check", description=__doc__)
    parser.add_argument("-n", type=int, default=100, help="number of schedules (100)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed (0)")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    use_virtual_time()
    install_model()
    seeds = range(arguments.first, arguments.first + arguments.n)
    made = [(seed, *each) for seed in seeds for each in histories(seed)]
    return bool(asyncio.run(check(made)))


if __name__ == "__main__":
    sys.exit(main())
