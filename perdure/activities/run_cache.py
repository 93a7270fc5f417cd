"""The conversations that this worker knows, and the way to those that it does not."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from weakref import WeakValueDictionary

from temporalio import activity

from ..agent import Agent
from ..conversation import Conversation, ConversationRef, DigestMismatchError
from ..messages import Message
from ..options import RunOptions
from ..prompty.portable import resolve_environment
from .history import read_run

DEFAULT_CACHE_BYTES = 64 * 1024 * 1024

RunKey = tuple[str, str]
"""Workflow id and run id."""


class KnownRun:
    """One run, as far as this worker follows it."""

    def __init__(self, agent: Agent, inputs: dict[str, object], options: RunOptions, conversation: Conversation) -> None:
        self.recorded_agent = agent
        self.inputs = inputs
        self.options = options
        self.conversation = conversation
        self._agent: Agent | None = None

    @property
    def agent(self) -> Agent:
        """The agent with its references to the environment resolved. Raises `ConfigurationError`."""
        if self._agent is None:
            self._agent = resolve_environment(self.recorded_agent)
        return self._agent

    @property
    def bytes(self) -> int:
        """About how much memory the run takes here; parsed messages take about three times their text."""
        return 4096 + 3 * self.conversation.chars + 500 * len(self.conversation.messages)


class RunCache:
    """The runs that were worked on last, bounded in bytes; what is missing is folded out of its history."""

    def __init__(self, max_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._runs: OrderedDict[RunKey, KnownRun] = OrderedDict()
        self._locks: WeakValueDictionary[RunKey, asyncio.Lock] = WeakValueDictionary()
        self.hits = 0
        self.misses = 0

    def add(self, key: RunKey, run: KnownRun) -> None:
        """Remember a run; those that were not used for the longest time make room."""
        self._runs[key] = run
        self._runs.move_to_end(key)
        total = sum(known.bytes for known in self._runs.values())
        while self._runs and total > self._max_bytes:
            _, forgotten = self._runs.popitem(last=False)
            total -= forgotten.bytes

    async def current(self) -> KnownRun:
        """The run that the current activity belongs to, its conversation at whatever version."""
        key = current_run()
        async with self._lock(key):
            return self._runs.get(key) or await self._read(key, None)

    async def messages_at(self, reference: ConversationRef) -> tuple[KnownRun, list[Message]]:
        """The run that the current activity belongs to, and its conversation at exactly that version.

        Raises `DigestMismatchError` when even the recorded history leads elsewhere.
        """
        key = current_run()
        async with self._lock(key):
            run = self._runs.get(key)
            if run is None or not _followed(run.conversation, reference):
                run = await self._read(key, reference)
            else:
                self.hits += 1
            self.add(key, run)
            return run, list(run.conversation.messages)

    def _lock(self, key: RunKey) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())

    async def _read(self, key: RunKey, reference: ConversationRef | None) -> KnownRun:
        self.misses += 1
        self._runs.pop(key, None)
        recorded = await read_run(activity.client(), *key)
        conversation = recorded.conversation(reference.version if reference else None)
        if reference is not None:
            conversation.follow(reference)
        conversation.forget_operations()
        run = KnownRun(recorded.input.agent, recorded.input.inputs, recorded.input.options, conversation)
        self.add(key, run)
        return run


def _followed(conversation: Conversation, reference: ConversationRef) -> bool:
    """Whether the conversation could be brought to the referenced version."""
    try:
        conversation.follow(reference)
    except DigestMismatchError:
        return False
    conversation.forget_operations()
    return True


def current_run() -> RunKey:
    """Workflow id and run id of the run that the current activity belongs to."""
    info = activity.info()
    assert info.workflow_id is not None
    assert info.workflow_run_id is not None
    return info.workflow_id, info.workflow_run_id
