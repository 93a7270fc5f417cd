"""Shows the turns of a session as they come: the agent's texts, its calls, and the earlier
messages.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence

from temporalio.service import RPCError

from ...client import RunHandle, Session
from ...client.reading.watch import RETRY_SECONDS, is_away
from ...client.sessions.reading import SessionRun, turns
from ...commands import command_line
from ...errors import RunError
from ...history.link import read_input
from ...messages import Message
from ...protocol.run import RunInput
from ..console import answer, describe_spending, say
from ..follow import Detached, alongside, shown_to_the_end
from ..lines import Line, typed_text
from ..problems import explained
from ..progress import Progress
from ..screen import Screen
from ..server_connection import ServerConnection, run_under_way
from ..worker_inside import mention_missing_worker


def last_part(messages: Sequence[Message]) -> Iterator[Line]:
    """Yield the last message of a person, and the texts that followed it."""
    said = [message for message in messages if message.role in ("user", "assistant")]
    asked = [place for place, message in enumerate(said) if message.role == "user"]
    for message in said[asked[-1] if asked else 0 :]:
        if message.role == "user":
            yield Line(typed_text(message), "strong")
        elif message.text.strip():
            yield Line(message.text.strip("\n"), "plain")


class Following:
    """Follows one session for one terminal."""

    def __init__(
        self, server: ServerConnection, session: Session, *, on_stdout: bool = False
    ) -> None:
        self._on_stdout = on_stdout
        self._server = server
        self._session = session
        self._begun = asyncio.Event()
        self._over: set[str] = set()
        """Temporal's ids of the runs that need not be shown."""
        self.current: RunHandle | None = None
        """The run that is shown."""
        self.unfinished: str | None = None
        """The id of a run that was shown, and whose end was not."""
        self.shown: Counter[str] = Counter()
        """What was typed here, and is shown already where a run reads it."""
        self.is_closing = False
        """Whether the session was closed here."""

    def expect_run(self) -> None:
        """Note that the session has a run, or will have one, because it was sent a message."""
        self._begun.set()

    async def skip_what_is_over(self) -> RunInput | None:
        """Skip ended runs; return the messages with which the open run began, if there is one."""
        self.expect_run()
        described = await self._server.client.get_workflow_handle(self._session.id).describe()
        under_way = run_under_way(described)
        async for turn in self._turns(wait=False):
            if turn.run_id == under_way:
                return await self._input(turn)
            self._over.add(turn.first_run_id)
        return None

    async def follow(self, screen: Screen) -> None:
        """Show one turn after the other until the person leaves, even if the server is away
        meanwhile.
        """
        while not screen.left.is_set():
            await self._begun.wait()
            self._begun.clear()
            try:
                await self._follow_to_its_end(screen)
            except RPCError as error:
                if not is_away(error):
                    raise
                self._begun.set()
                await asyncio.sleep(RETRY_SECONDS)

    async def _follow_to_its_end(self, screen: Screen) -> None:
        async for turn in self._turns(wait=True):
            if turn.first_run_id not in self._over:
                await self._show(turn, screen)
                self._over.add(turn.first_run_id)
        if not await self._server.has_ended(self._session.id):
            self._begun.set()  # a new session of that id has begun meanwhile
        elif self.is_closing:
            screen.left.set()
        elif not self._begun.is_set():
            say(
                f"    Session {self._session.id} is closed. The next message begins a new one.",
                "faint",
            )

    async def _turns(self, *, wait: bool) -> AsyncIterator[SessionRun]:
        client, id = self._server.client, self._session.id
        link = (await client.get_workflow_handle(id).describe()).run_id
        async for turn in turns(client, id, link, wait=wait):
            yield turn

    async def _input(self, turn: SessionRun) -> RunInput:
        return await read_input(self._server.client, turn.run_id, turn.first_run_id)

    async def _show(self, turn: SessionRun, screen: Screen) -> None:
        handle = RunHandle(self._server.client, turn.run_id, origin=turn.first_run_id)
        input = await self._input(turn)
        for message in first_messages(input):
            if not self._is_shown(message.text):
                say(typed_text(message), "strong")
        shown = Progress(handle.id, screen, self._is_shown)
        self.current, self.unfinished = handle, handle.id
        try:
            await self._until_end(handle, shown, screen)
            self.unfinished = self.unfinished if screen.left.is_set() else None
        finally:
            self.current = None
            shown.end_line()
            screen.below = list

    def _is_shown(self, text: str) -> bool:
        """Return whether it is, the first time this is called for it."""
        if not self.shown[text]:
            return False
        self.shown[text] -= 1
        return True

    async def _until_end(self, handle: RunHandle, shown: Progress, screen: Screen) -> None:
        try:
            async with alongside(mention_missing_worker(self._server, handle.id)):
                result = await shown_to_the_end(handle, shown, screen)
        except Detached:
            return
        except RunError as error:
            shown.end_line()
            _say_failure(handle, error)
            return
        except Exception as error:
            text = explained(error)
            shown.end_line()
            say(f"    {text}", "bad")
            return
        shown.show_output(result.output)
        say(f"    {handle.id}: {describe_spending(result)}", "faint")
        if result.is_incomplete:
            say("    reached a limit: this answer is incomplete", "bad")
        if self._on_stdout:
            answer(result.output, exact=True)


def _say_failure(handle: RunHandle, error: RunError) -> None:
    if error.kind == "cancelled":
        say(f"    {handle.id} was cancelled", "bad")
        return
    say(f"    {handle.id} ended without an answer ({error.kind}): {error}", "bad")
    say(f"    its steps: {command_line('show', handle.id)}", "faint")


def first_messages(input: RunInput) -> list[Message]:
    """Return the messages that the turn starts with: those since the turn before."""
    said = [message for message in input.messages if message.role == "user"]
    return said if input.beginning else said[-1:]
