"""Forks worker processes on demand: `python -m tests.support.worker_nursery`.

Importing everything takes seconds, forking a process that has done so milliseconds. Each line on stdin is the
JSON of one worker (`WorkerJob`), each line on stdout the process id that it got. At the end of stdin, all are killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys

import anthropic  # noqa: F401
import openai  # noqa: F401
from temporalio.worker._worker import load_default_build_id

import perdure.tools.mcp.calls
import perdure.tools.remote.a2a
import perdure.worker  # noqa: F401

from .worker_process import WorkerJob, serve


def main() -> None:
    load_default_build_id()  # a worker reads all modules for it, once in a process
    gc.freeze()
    children: list[int] = []
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become_worker(WorkerJob.model_validate_json(line))
        children.append(child)
        print(child, flush=True)
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _become_worker(job: WorkerJob) -> None:
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(os.open(os.path.join(job.folder, "workers.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    os.dup2(2, 1)
    try:
        asyncio.run(serve(job))
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
