"""Does a thing twice and writes, as JSON, which files the second time enters: run by a test.

`python -m tests.repository.trace_one_call HOST:PORT model|tool|approval|start|turn…`. Worker,
workflow and activity are in this process; the server and the model are reached as always, over
sockets. What is done:

- `model`, `tool`: `perdure run`. A file counts when one of its functions is entered or resumed, on
  any thread, from the loop's step that makes the call to the step after it; of a model call also
  when one of its functions is on the call stack at the moment when `start_run` is entered.
- `approval`: a run whose tool call a person approves, from the loop's step to the step after it:
  what a tool call enters counts too.
- `start`: `start_run`, from its call to its return; no worker takes the run.
- `turn`: a turn of a session, from the call of `send` to the result in the caller's hands.

The first time has imported everything and opened the connections, so that neither counts; the
largest import comes before it, since nothing traces it then. `perdure.testing` does not count
either, nor do the worker's looks at its memory, at its event loops and at the record of pauses,
which come again and again, whatever is being done, nor the slots that it gives to its polls, nor
what it imports ahead.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from uuid import uuid4

import openai  # noqa: F401
from temporalio.client import Client

import perdure
from perdure import tool
from perdure.cli.entry import run
from perdure.client import connect, session, start_run
from perdure.loop.loop import AgentLoop
from perdure.loop.state import RunPart
from perdure.testing import ScriptedModel, asks, call, says
from perdure.tools.threads import Watchdog
from perdure.worker import create_worker
from perdure.worker.first_imports import import_likely, warm_up
from perdure.worker.memory import WorkflowMemory
from perdure.worker.pauses import PauseWatch
from perdure.worker.slots import ActivitySlots, _wake
from perdure.workflows.approvals import OpenApproval

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
DECLARATION = "tools: [{name: look, kind: function}]\n"
ASKING, GREETING = asks(call("look", "call_1", city="Paris")), says("Hello.")
SCRIPTS = {
    "model": [GREETING],
    "tool": [ASKING, GREETING],
    "approval": [ASKING, GREETING],
    "start": [],
    "turn": [GREETING, GREETING],
}

START: CodeType = start_run.__code__
TOOL_STEPS = (AgentLoop._run_tools.__code__, RunPart.append.__code__)
STEPS: dict[str, tuple[CodeType, CodeType]] = {
    "model": (AgentLoop._call_model.__code__, AgentLoop._check_output.__code__),
    "tool": TOOL_STEPS,
    "approval": TOOL_STEPS,
}
"""The step of the loop that makes a call, and what follows it."""
TIMERS: frozenset[CodeType] = frozenset(
    {
        *(WorkflowMemory.watch.__code__, Watchdog._watch_loops.__code__, PauseWatch.watch.__code__),
        *(warm_up.__code__, import_likely.__code__),
        *(ActivitySlots.reserve_slot.__code__, ActivitySlots.mark_slot_used.__code__),
        *(ActivitySlots.try_reserve_slot.__code__, ActivitySlots.release_slot.__code__),
        *(ActivitySlots._note_round.__code__, _wake.__code__),
    }
)


class Trace:
    """A profile function that notes the package's files in the order in which they are first
    entered.

    It begins and ends by itself where `STEPS` has the steps of what is done, else by `begin` and
    `end`.
    """

    def __init__(self, kind: str) -> None:
        self._first, self._next = STEPS.get(kind, (None, None))
        self._notes_start = kind == "model"
        self.entered: dict[str, None] = {}
        self._is_on = False
        self.asks = False
        """Whether a call has begun to wait for a person."""

    def clear(self) -> None:
        """Forget what the first time has entered."""
        self.entered.clear()
        self.asks = False

    def begin(self) -> None:
        self._is_on = True

    def end(self) -> None:
        self._is_on = False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or not _counts(frame.f_code):
            return
        if frame.f_code is START and self._notes_start:
            self._add(*reversed(list(_stack(frame))))
        self._is_on = (
            self._is_on or frame.f_code is self._first
        ) and frame.f_code is not self._next
        self.asks = self.asks or frame.f_code is OpenApproval.__init__.__code__
        if self._is_on and TIMERS.isdisjoint(_stack(frame)):
            self._add(frame.f_code)

    def _add(self, *codes: CodeType) -> None:
        self.entered.update(dict.fromkeys(_file(code) for code in codes))


def _counts(code: CodeType) -> bool:
    """Whether it is a function of the package's own: modules and class bodies run when they are
    imported.
    """
    return (
        code.co_filename.startswith(f"{PACKAGE}/")
        and bool(code.co_flags & inspect.CO_OPTIMIZED)
        and not _tests(code)
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


def run_command(kind: str, agent: Path, address: str, trace: Trace) -> None:
    """Run the agent by the command line. Raises SystemExit when that fails."""
    tools = agent.with_name("tools.py")
    tools.write_text(TOOLS)
    if code := run(["--address", address, "run", str(agent), "--tools", str(tools), "-q"]):
        raise SystemExit(code)


def call_functions(kind: str, agent: Path, address: str, trace: Trace) -> None:
    """Do one of the other things, with a client and a worker of its own."""

    @tool(approval="always")
    def look(city: str) -> str:
        return city

    async def act() -> None:
        client, queue = await connect(address), f"trace-{uuid4()}"
        if kind == "start":
            await SCENARIOS[kind](client, agent, queue, trace)
            return
        async with create_worker(
            client, task_queue=queue, tools=[look] if kind == "approval" else []
        ):
            await SCENARIOS[kind](client, agent, queue, trace)

    asyncio.run(act())


async def _approval(client: Client, agent: Path, queue: str, trace: Trace) -> None:
    handle = await start_run(client, agent, task_queue=queue)
    while not trace.asks:
        await asyncio.sleep(0.01)
    await handle.approve("call_1")
    await handle.result()


async def _start(client: Client, agent: Path, queue: str, trace: Trace) -> None:
    trace.begin()
    handle = await start_run(client, agent, task_queue=queue)
    trace.end()
    await client.get_workflow_handle(handle.id).terminate()


async def _turn(client: Client, agent: Path, queue: str, trace: Trace) -> None:
    talk = session(client, agent, queue, task_queue=queue)
    await (await talk.send("Hello.")).result()
    trace.begin()
    await (await talk.send("Hello again.")).result()
    trace.end()
    await talk.close()


SCENARIOS: dict[str, Callable[[Client, Path, str, Trace], Awaitable[None]]] = {
    "approval": _approval,
    "start": _start,
    "turn": _turn,
}


def main(address: str, *kinds: str) -> None:
    """Print the list of each, a line for one. Raises SystemExit where a command fails."""
    for kind in kinds:
        print(json.dumps(entered(kind, address)), flush=True)


def entered(kind: str, address: str) -> list[str]:
    """Return the files of the second time."""
    act, tools = call_functions if kind in SCENARIOS else run_command, kind in ("tool", "approval")
    with tempfile.TemporaryDirectory() as folder, ScriptedModel(SCRIPTS[kind]) as model:
        agent = Path(folder, "greeter.prompty")
        agent.write_text(
            AGENT.format(endpoint=model.openai_endpoint, tools=DECLARATION if tools else "")
        )
        trace = Trace(kind)
        threading.setprofile(trace)
        sys.setprofile(trace)
        for _ in range(2):
            trace.clear()
            act(kind, agent, address, trace)
        sys.setprofile(None)
    return list(trace.entered)


if __name__ == "__main__":
    main(*sys.argv[1:])
    # Without the interpreter's own shutdown, as `perdure` itself ends.
    os._exit(0)
