"""Calls one function in a process of its own: `python -m perdure.tools.isolated_process`; see
`isolated`.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import sys
import threading
import traceback
from typing import Any, NoReturn

from ..json_types import JsonObject
from ..messages import ToolResult
from .context import ToolContext
from .isolated import MARK, Job, end_processes
from .kind import OutcomeUnknown
from .results import describe, to_result, with_advice
from .signature import call_by_name, signature_of


def main() -> NoReturn:
    faulthandler.enable()
    worker = os.fdopen(os.dup(0), "rb")
    answer = os.fdopen(os.dup(1), "wb")
    # The function and its child processes inherit these: an empty stdin, and the worker's stderr.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    job: Job = pickle.load(worker)
    threading.Thread(target=_end_with, args=(worker,), daemon=True).start()
    try:
        result = _result(job)
    except BaseException as error:
        traceback.print_exc()
        text = f"Error: Tool '{job.context['tool']}' failed: {with_advice(describe(error))}"
        is_unknown = isinstance(error, OutcomeUnknown)
        result = ToolResult.failure(text, kind=type(error).__name__, outcome_unknown=is_unknown)
    with answer:
        answer.write(result.model_dump_json(by_alias=True).encode() + b"\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # The call has ended; its threads may still be running.


def _end_with(worker: Any) -> None:
    """When the worker is gone, end this process and its descendants."""
    worker.read()
    end_processes(os.getpid(), os.environ[MARK])
    os._exit(1)


def _result(job: Job) -> ToolResult:
    sys.path[:] = job.path
    function = job.address.function()
    signature = signature_of(function)
    given: JsonObject = signature.fit(job.arguments, hidden=job.hidden)
    if signature.context_name:
        secret = (lambda: job.secret) if job.secret else None
        given[signature.context_name] = signature.context_of(
            ToolContext(**job.context, secret=secret)
        )
    return to_result(call_by_name(function, given)(), job.limits)


if __name__ == "__main__":
    main()
