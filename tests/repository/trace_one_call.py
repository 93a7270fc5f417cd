"""Runs `perdure run` twice and writes, as JSON, which files a call of the second one enters: run by a test.

`python -m tests.repository.trace_one_call model|tool HOST:PORT`. Worker, workflow and activity are in this process; the
server and the model are reached as always, over sockets. A file counts when

- one of its functions is on the call stack at the moment when `start_run` is entered (of a model call), or
- one of its functions is entered or resumed, on any thread, from the loop's step that makes the call to the step after
  it.

The first run has imported everything and opened the connections, so that neither counts. `perdure.testing` does not
count either, nor do the worker's looks at its memory and at its event loops, which come again and again, whatever is
being done, nor what it imports ahead.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import perdure
from perdure.cli.entry import run
from perdure.client import start_run
from perdure.loop.loop import AgentLoop
from perdure.loop.model_calls import ModelCalls
from perdure.testing import ScriptedModel, asks, call, says
from perdure.tools.threads import Watchdog
from perdure.worker.memory import WorkflowMemory
from perdure.worker.plugin import _warm_up, import_likely

PACKAGE = Path(perdure.__file__).parent
AGENT = """\
---
name: greeter
model:
  id: any
  provider: openai
  connection: {{kind: anonymous, endpoint: '{endpoint}'}}
{tools}---
system:
You greet.

user:
Hello.
"""
TOOLS = "from perdure import tool\n\n\n@tool\ndef look(city: str) -> str:\n    return city\n"
DECLARED = {"model": "", "tool": "tools: [{name: look, kind: function}]\n"}
SCRIPTS = {"model": [says("Hello.")], "tool": [asks(call("look", "call_1", city="Paris")), says("Hello.")]}

START: CodeType = start_run.__code__
STEPS: dict[str, tuple[CodeType, CodeType]] = {
    "model": (AgentLoop._call_model.__code__, AgentLoop._check_output.__code__),
    "tool": (AgentLoop._run_tools.__code__, ModelCalls.emit_cost.__code__),
}
"""The step of the loop that makes a call, and what follows it."""
TIMERS: frozenset[CodeType] = frozenset(
    {WorkflowMemory._watch.__code__, Watchdog._look.__code__, _warm_up.__code__, import_likely.__code__}
)


class Trace:
    """A profile function that notes the package's files in the order in which the call first enters them."""

    def __init__(self, call: str) -> None:
        self._first, self._next = STEPS[call]
        self._starts = call == "model"
        self.entered: dict[str, None] = {}
        self._is_calling = False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or not _counts(frame.f_code):
            return
        if frame.f_code is START and self._starts:
            self._add(*reversed(list(_stack(frame))))
        self._is_calling = (self._is_calling or frame.f_code is self._first) and frame.f_code is not self._next
        if self._is_calling and TIMERS.isdisjoint(_stack(frame)):
            self._add(frame.f_code)

    def _add(self, *codes: CodeType) -> None:
        self.entered.update(dict.fromkeys(_file(code) for code in codes))


def _counts(code: CodeType) -> bool:
    """Whether it is a function of the package's own: modules and class bodies run when they are imported."""
    return (
        code.co_filename.startswith(f"{PACKAGE}/") and bool(code.co_flags & inspect.CO_OPTIMIZED) and not _tests(code)
    )


def _tests(code: CodeType) -> bool:
    return _file(code).startswith("testing/")


def _file(code: CodeType) -> str:
    return str(Path(code.co_filename).relative_to(PACKAGE))


def _stack(frame: FrameType | None) -> Iterator[CodeType]:
    while frame:
        if _counts(frame.f_code):
            yield frame.f_code
        frame = frame.f_back


def main(kind: str, address: str) -> int:
    """Print the list; returns the exit code of the first command that fails, else 0."""
    with tempfile.TemporaryDirectory() as folder, ScriptedModel(SCRIPTS[kind]) as model:
        agent, tools = Path(folder, "greeter.prompty"), Path(folder, "tools.py")
        agent.write_text(AGENT.format(endpoint=model.openai_endpoint, tools=DECLARED[kind]))
        tools.write_text(TOOLS)
        command = ["--address", address, "run", str(agent), "--tools", str(tools), "-q"]
        if code := run(command):
            return code
        trace = Trace(kind)
        threading.setprofile(trace)
        sys.setprofile(trace)
        code = run(command)
        sys.setprofile(None)
        print(json.dumps(list(trace.entered)), flush=True)
        return code


if __name__ == "__main__":
    # Without the interpreter's own shutdown, as `perdure` itself ends.
    os._exit(main(*sys.argv[1:]))
