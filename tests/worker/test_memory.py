"""A worker's process looks after its garbage by itself."""

from __future__ import annotations

import json
import subprocess
import sys

CODE = """
import asyncio, gc, json
from perdure.worker.memory import GARBAGE_SECONDS, tune_process

async def main():
    tune_process()
    loop = asyncio.get_running_loop()
    waits = [handle.when() - loop.time() for handle in loop._scheduled]
    print(json.dumps([gc.get_freeze_count(), gc.get_threshold(), gc.isenabled(), waits, GARBAGE_SECONDS]))

asyncio.run(main())
"""


def test_what_is_there_at_the_start_is_left_alone_and_the_rest_is_looked_at_now_and_then() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=60
    )
    frozen, thresholds, enabled, waits, every = json.loads(done.stdout)
    assert frozen > 10_000
    assert thresholds[0] > 700
    assert enabled
    assert len(waits) == 1
    assert every - 5 < waits[0] <= every
