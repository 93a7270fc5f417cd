"""Asks on the terminal about tool calls that wait for approval, and questions, while the run is being watched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from ..decision_commands import decision_command
from ..errors import ApprovalError
from ..excerpt import one_line
from .approvals import DENIED, read_arguments, this_user
from .console import describe_call, say
from .problems import UsageProblem
from .terminal import Terminal

if TYPE_CHECKING:
    from ..client import RunHandle
    from ..events import RunEvent

_PROMPT = "    y = yes, n REASON = no, e JSON = yes with these arguments: "
_ANSWER, _CHOICE = "    your answer: ", "    your answer, or the number of a choice: "
_SETTLED = ("decided", "stale", "unknown", "ended")
"""Kinds of refusals after which the question is moot."""
_SHOWN_ARGUMENTS = 2000
"""Characters: who approves must see what."""


@asynccontextmanager
async def asking(handle: RunHandle, terminal: Terminal | None) -> AsyncIterator[Asker | None]:
    """Within it, the questions of the run are asked on the terminal; None where there is nobody to ask."""
    if terminal is None:
        yield None
        return
    asker = Asker(handle, terminal)
    task = asyncio.create_task(asker.ask_all())
    try:
        yield asker
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class Asker:
    """Asks one question after another, and withdraws one that is answered elsewhere."""

    def __init__(self, handle: RunHandle, terminal: Terminal) -> None:
        self._handle = handle
        self._terminal = terminal
        self._asked: asyncio.Queue[RunEvent] = asyncio.Queue()
        self._current: RunEvent | None = None
        self._settled = asyncio.Event()

    def ask(self, requested: RunEvent) -> None:
        """Ask about a call, when it is its turn."""
        self._asked.put_nowait(requested)

    def settle(self, completed: RunEvent) -> None:
        """Ask no longer about a call that was decided, here or elsewhere."""
        if self._current and _place(self._current) == _place(completed):
            self._settled.set()

    async def ask_all(self) -> None:
        """Ask until this is cancelled."""
        while True:
            self._current = await self._asked.get()
            self._settled.clear()
            await self._ask_until_settled(self._current)

    async def _ask_until_settled(self, requested: RunEvent) -> None:
        data = requested.data
        if not await self._waits(requested):
            return
        while not self._settled.is_set():
            line = await self._terminal.ask(lambda: _show(data), withdrawn=self._settled)
            if line is None:
                if self._settled.is_set():
                    return
                named = (self._run_of(requested).id, str(requested.call_id), data["digest"])
                say(f"    {decision_command(*named, kind=data.get('kind', 'approval'))}")
                return
            if await self._answered(requested, line.strip()):
                return

    async def _waits(self, requested: RunEvent) -> bool:
        """Whether the call still waits: it may have been decided while another question was asked."""
        from temporalio.service import RPCError

        try:
            pending = (await self._run_of(requested).status()).pending_approvals
        except RPCError as error:
            say(f"    {error.message}", "bad")
            return True
        return requested.data["digest"] in [each.digest for each in pending if each.run_id is None]

    def _run_of(self, requested: RunEvent) -> RunHandle:
        """The run that takes the decision."""
        return self._handle.called(requested.run_id) if requested.run_id else self._handle

    async def _answered(self, requested: RunEvent, line: str) -> bool:
        """Send the decision that the line expresses; False when the question must be put again."""
        from temporalio.service import RPCError

        decide = self._answer if requested.data.get("kind") == "question" else self._decide
        try:
            return await decide(requested, line)
        except UsageProblem as problem:
            say(f"    {problem}", "bad")
            return False
        except ApprovalError as error:
            say(f"    {error}", "bad")
            return error.kind in _SETTLED
        except RPCError as error:
            say(f"    {error.message}", "bad")
            return False

    async def _decide(self, requested: RunEvent, line: str) -> bool:
        word, _, rest = line.partition(" ")
        call_id, run, named = str(requested.call_id), self._run_of(requested), _named(requested)
        match word.lower():
            case "y" | "yes":
                await run.approve(call_id, **named)
            case "n" | "no":
                await run.deny(call_id, rest.strip() or DENIED, **named)
            case "e" | "edit":
                await run.approve(call_id, arguments=read_arguments(rest, "e"), **named)
            case _:
                if word:
                    say(f"    {one_line(word, 40)!r} is none of these: the call still waits")
                return False
        return True

    async def _answer(self, requested: RunEvent, line: str) -> bool:
        if not line:
            return False
        choices = requested.data["choices"]
        is_number = line.isdecimal() and line not in choices and 0 < int(line) <= len(choices)
        run = self._run_of(requested)
        await run.answer(str(requested.call_id), choices[int(line) - 1] if is_number else line, **_named(requested))
        return True


def _place(event: RunEvent) -> tuple[str | None, str | None, str]:
    return event.run_id, event.call_id, event.data.get("digest", "")


def _named(requested: RunEvent) -> dict[str, Any]:
    return {"digest": requested.data["digest"], "by": this_user()}


def _show(data: Mapping[str, Any]) -> str:
    """Show what is asked; the prompt for the answer."""
    reason = f" ({one_line(data['reason'])})" if data.get("reason") else ""
    if data.get("kind") == "question":
        say(f"  {one_line(str(data['arguments'].get('question')), 2000)}{reason}", "strong")
        for number, choice in enumerate(data["choices"], 1):
            say(f"    {number}. {one_line(choice)}")
        return _CHOICE if data["choices"] else _ANSWER
    what = f": {one_line(data['description'])}" if data.get("description") else ""
    call = describe_call(data["name"], data["arguments"], _SHOWN_ARGUMENTS)
    say(f"  {call} waits for approval{what}{reason}", "strong")
    return _PROMPT
