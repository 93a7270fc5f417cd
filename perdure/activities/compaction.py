"""Summarises the messages that a run drops, by the user's function or by an agent's model."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

from ..agents import Agent
from ..messages import Message
from ..options import RunOptions
from ..redaction import redactor
from ..text import cut_middle
from ..tools.user_loop import UserLoop
from .credentials import Credentials
from .heartbeat import Heartbeat
from .hooks import Hooks, conversation_text, summary_of
from .model import ask_model

MAX_SUMMARY_BYTES = 64 * 1024


class Compacting:
    """The compactors of a worker."""

    def __init__(self, hooks: Hooks, credentials: Credentials, loop: UserLoop) -> None:
        self._hooks = hooks
        self._credentials = credentials
        self._loop = loop

    async def summary(self, dropped: Sequence[Message], options: RunOptions, *, run_id: str) -> str:
        """Return the named compactor's summary of the messages.

        Raises ConfigurationError for a compactor that is not registered, and any error of the
        compactor.
        """
        assert options.compactor is not None
        compactor = self._hooks.compactor(options.compactor)
        if callable(compactor):
            summary = summary_of(
                await self._hooks.call(compactor, dropped, title=f"compactor of run {run_id}")
            )
            return cut_middle(redactor().text(summary), MAX_SUMMARY_BYTES)
        return await self._summary(compactor, conversation_text(dropped), options)

    async def _summary(
        self, compactor: Agent | str | PathLike[str], text: str, options: RunOptions
    ) -> str:
        """Return a `.prompty` agent's summary of the conversation's text (its input
        `conversation`).
        """
        # Only these compactors need templates. Without one, a worker imports neither Jinja2 nor
        # PyYAML.
        from ..prompty.load import load
        from ..prompty.prepare import prepare

        agent = compactor if isinstance(compactor, Agent) else load(compactor)
        agent = await self._credentials.for_compactor(agent)
        messages = prepare(agent, {"conversation": text})
        own_options = RunOptions(llm_timeout=options.llm_timeout)
        reply = await ask_model(
            agent, messages, own_options, Heartbeat(), with_tools=False, loop=self._loop
        )
        return summary_of(reply.message.text)
