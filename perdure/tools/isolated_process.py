"""Calls one function in a process of its own: `python -m perdure.tools.isolated_process FD`; see `isolated`."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import traceback
from typing import Any, NoReturn

from ..messages import ToolResult
from ..tool_results import SizeLimits
from .context import ToolContext
from .isolated import MARK, Job, ProcessMessage, end_processes
from .kind import OutcomeUnknown
from .results import describe, to_result
from .signature import call_by_name, signature_of

CANCELLED = b"cancelled"


class _Worker:
    """The worker, at the other ends of two pipes. When it is gone, this process ends, and what it has started."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._words = os.fdopen(os.dup(0), "rb")
        # What the function starts inherits stdin: it would wait there for what the worker never writes.
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        self._lock = threading.Lock()
        self._has_asked = False
        self._cancelled = threading.Event()
        self.job = Job.model_validate_json(self._words.readline())
        threading.Thread(target=self._listen, daemon=True).start()

    def tell(self, said: ProcessMessage) -> None:
        line = said.model_dump_json(exclude_none=True, by_alias=True).encode() + b"\n"
        with self._lock:
            while line:
                line = line[os.write(self._pipe, line) :]

    def is_cancelled(self) -> bool:
        if not self._has_asked:
            self._has_asked = True
            self.tell(ProcessMessage(asks_cancelled=True))
        return self._cancelled.is_set()

    def context(self) -> ToolContext:
        return ToolContext(
            **self.job.context,
            conversation=self.job.conversation,
            secret=(lambda: self.job.secret) if self.job.secret else None,
            heartbeat=lambda *details: self.tell(ProcessMessage(heartbeat=list(details))),
            report=lambda progress: self.tell(ProcessMessage(progress=progress)),
            is_cancelled=self.is_cancelled,
            handed_on=_not_here,
        )

    def _listen(self) -> None:
        for line in self._words:
            if line.strip() == CANCELLED:
                self._cancelled.set()
        end_processes(os.getpid(), os.environ[MARK])
        os._exit(1)


async def _not_here() -> bool:
    raise RuntimeError("context.handed_on() can't be asked in an isolated tool, which is ended when it is cancelled")


def main() -> NoReturn:
    faulthandler.enable()
    worker = _Worker(int(sys.argv[1]))
    try:
        worker.tell(ProcessMessage(result=_result(worker)))
    except BaseException as error:
        told = ProcessMessage(
            raised=type(error).__name__, text=describe(error), traceback=traceback.format_exc()[-20_000:]
        )
        told.outcome_unknown = isinstance(error, OutcomeUnknown)
        worker.tell(told)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # Whatever its threads still do: the call has ended.


def _result(worker: _Worker) -> ToolResult:
    job = worker.job
    sys.path[:] = job.path
    function = job.address.function()
    signature = signature_of(function)
    given: dict[str, Any] = signature.fit(job.arguments, hidden=job.hidden)
    if signature.context_name:
        given[signature.context_name] = worker.context()
    limits = SizeLimits(text_bytes=job.text_bytes, media_bytes=job.media_bytes)
    return to_result(call_by_name(function, given)(), limits)


if __name__ == "__main__":
    main()
