"""Asks on the terminal about pending calls while the person watches the run."""

from __future__ import annotations

import asyncio
import getpass
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import NamedTuple

from temporalio.service import RPCError

from ..client import RunHandle
from ..commands import command_line, ways_to_settle
from ..errors import ApprovalError
from ..events import RunEvent
from ..json_types import JsonObject, JsonView
from ..text import one_line
from ..tool_calls import PendingApproval
from .console import describe_call, say
from .problems import Failure, UsageProblem
from .screen import Screen

DENIED = "denied by a person"
"""The reason of a denial without another one."""


class CallToDecide(NamedTuple):
    """The call that a decision is about."""

    id: str
    digest: str | None
    """The pending call's digest, so that the decision counts for that call only; None when no call
    of that id waits."""
    shown: str
    run: RunHandle
    """The run to which the decision is sent: this one, or one that it called."""


async def call_to_decide(
    handle: RunHandle, call_id: str | None, digest: str | None
) -> CallToDecide:
    """Return the call of that id and digest; None means the only pending one. Raises `Failure` when
    that is ambiguous.

    A given id that does not wait, or with another digest, is left to the run: it may have received
    the same decision before.
    """
    status = await handle.status()
    named = [each for each in status.pending_approvals if call_id in (None, each.call_id)]
    found = [each for each in named if digest in (None, each.digest)]
    if len(found) == 1:
        [each] = found
        return CallToDecide(each.call_id, each.digest, _call(each), _run_of(handle, each))
    if call_id is not None and not found:
        run = _run_of(handle, named[0]) if named else handle
        now = [f", not {_call(each)}, which waits now," for each in named]
        shown = f"an earlier call {one_line(call_id)!r}{''.join(now)}"
        return CallToDecide(call_id, digest, shown, run)
    if status.status not in ("running", "waiting_for_approval", "held"):
        raise Failure(
            f"run {handle.id} has ended, so nothing waits there: "
            f"{command_line('show', handle.id)} shows the decisions"
        )
    waiting = "".join(
        f"\n  {each.call_id} (digest {each.digest})  {_call(each)}  of run "
        f"{each.run_id or handle.id}"
        for each in found or named
    )
    raise Failure(
        f"run {handle.id}: expected the id, and --digest where two have one id, of a tool call "
        f"that waits. Waiting:{waiting or ' none'}"
    )


def _call(pending: PendingApproval) -> str:
    return describe_call(pending.name, pending.arguments)


def _run_of(handle: RunHandle, pending: PendingApproval) -> RunHandle:
    return handle.called(pending.run_id) if pending.run_id else handle


def waiting_lines(run_id: str, calls: Iterable[PendingApproval]) -> Iterator[str]:
    """Yield each waiting call with the ways to decide it, the further ways on lines below."""
    for each in calls:
        kind = "an answer" if each.kind == "question" else "approval"
        how, *others = ways_to_settle(each.run_id or run_id, each)
        when = f"{times(each.since, each.deadline)}{_who(each)}"
        yield f"{_call(each)} waits for {kind} {when}: {how}"
        yield from (f"  or {other}" for other in others)


def times(since: float, deadline: float | None) -> str:
    """Return the start of a wait, and its deadline if there is one."""
    return f"since {local_time(since)}" + (f" until {local_time(deadline)}" if deadline else "")


def _who(pending: PendingApproval) -> str:
    """Return who may decide, and who has; "" where anybody may."""
    if (policy := pending.approvers) is None:
        return ""
    votes = ", ".join(one_line(vote.name) for vote in pending.votes)
    approved = f", approved by {votes}" if votes else ""
    return one_line(f", may decide: {policy.in_words()}{approved}", 500)


def local_time(seconds: float) -> str:
    """Return a time for people to read: local, to the second."""
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def read_arguments(text: str, where: str) -> JsonObject:
    """Parse arguments that a person typed as JSON. Raises `UsageProblem`, which names their place,
    `where`.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageProblem(f"{where} {one_line(text)!r}: not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageProblem(
            f"{where} {text!r}: expected a JSON object of arguments by name, got "
            f"{type(value).__name__}"
        )
    return value


def this_user() -> str | None:
    """Return the name of the current user; None if the system has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None


_PROMPT = "    y = yes, n REASON = no, e JSON = yes with these arguments"
_ANSWER, _CHOICE = "    type your answer", "    type your answer, or the number of a choice"
_SETTLED = ("decided", "stale", "unknown", "ended")
"""Kinds of refusals after which the question is moot."""
_SHOWN_ARGUMENTS = 2000
"""Characters: an approver must see the arguments."""


@asynccontextmanager
async def asker_of(handle: RunHandle, screen: Screen | None) -> AsyncIterator[Asker | None]:
    """Ask the run's questions on the terminal while the block runs; yields None without a person to
    ask.
    """
    if screen is None:
        yield None
        return
    asker = Asker(handle, screen)
    task = asyncio.create_task(asker.ask_all())
    try:
        yield asker
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class Asker:
    """Asks one question after another, and withdraws one that another terminal answers."""

    def __init__(self, handle: RunHandle, screen: Screen) -> None:
        self._handle = handle
        self._screen = screen
        self._asked: asyncio.Queue[RunEvent] = asyncio.Queue()
        self._current: RunEvent | None = None
        self._settled = asyncio.Event()

    def ask(self, requested: RunEvent) -> None:
        """Queue a question about a call."""
        self._asked.put_nowait(requested)

    def settle(self, completed: RunEvent) -> None:
        """Withdraw the question about a call that was decided, here or elsewhere."""
        if self._current and _place(self._current) == _place(completed):
            self._settled.set()

    async def ask_all(self) -> None:
        """Ask until cancelled."""
        while True:
            self._current = await self._asked.get()
            self._settled.clear()
            await self._ask_until_settled(self._current)

    async def _ask_until_settled(self, requested: RunEvent) -> None:
        data = requested.data
        if not await self._waits(requested):
            return
        while not self._settled.is_set():
            _show(data)
            line = await self._screen.ask(withdrawn=self._settled)
            if line is None or await self._send_decision(requested, line.strip()):
                return

    async def _waits(self, requested: RunEvent) -> bool:
        """Return whether the call still waits: it may have been decided during another question."""
        try:
            pending = (await self._run_of(requested).status()).pending_approvals
        except RPCError as error:
            say(f"    {error.message}", "bad")
            return True
        return requested.data["digest"] in [each.digest for each in pending if each.run_id is None]

    def _run_of(self, requested: RunEvent) -> RunHandle:
        """Return the run to which the decision is sent."""
        return self._handle.called(requested.run_id) if requested.run_id else self._handle

    async def _send_decision(self, requested: RunEvent, line: str) -> bool:
        """Send the decision that the line expresses; return False when the question must be asked
        again.
        """
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
        call_id, run, named = str(requested.call_id), self._run_of(requested), _signature(requested)
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
        await run.answer(
            str(requested.call_id),
            choices[int(line) - 1] if is_number else line,
            **_signature(requested),
        )
        return True


def _place(event: RunEvent) -> tuple[str | None, str | None, str]:
    return event.run_id, event.call_id, event.data.get("digest", "")


def _signature(requested: RunEvent) -> JsonObject:
    return {"digest": requested.data["digest"], "by": this_user()}


def _show(data: JsonView) -> None:
    """Show the question and the possible answers."""
    reason = f" ({one_line(data['reason'])})" if data.get("reason") else ""
    if data.get("kind") == "question":
        say(f"  {one_line(str(data['arguments'].get('question')), 2000)}{reason}", "strong")
        for number, choice in enumerate(data["choices"], 1):
            say(f"    {number}. {one_line(choice)}")
        say(_CHOICE if data["choices"] else _ANSWER)
        return
    what = f": {one_line(data['description'])}" if data.get("description") else ""
    call = describe_call(data["name"], data["arguments"], _SHOWN_ARGUMENTS)
    say(f"  {call} waits for approval{what}{reason}", "strong")
    say(_PROMPT)
