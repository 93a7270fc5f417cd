"""Cache of the worker's most recent runs, bounded in memory; others are read from their
histories.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar
from weakref import WeakValueDictionary

from cachetools import LRUCache
from temporalio import activity

from ..agents import Agent, Model, with_others
from ..conversation import Conversation, ConversationRef, DigestMismatchError, conversation_bytes
from ..declared_tools import Tool
from ..guardrails import UNSEEN
from ..history.link import read_beginning, read_link
from ..messages import Message
from ..options import RunOptions, heartbeat_intervals
from ..prompty.portable import credentials_in, resolve_environment
from ..prompty.worker_limits import OPEN, WorkerLimits
from ..prompty.worker_refusals import require_allowed
from ..protocol.inventory import Inventory
from ..protocol.run import RunInput
from ..tool_calls import RecordedSignature, agents_in
from ..tools.context import open_deps

HEADS_SHARE = 8
"""An eighth of the memory holds the runs themselves (agent, inputs, options), the rest their
conversations."""


class Run(Protocol):
    """A run without its conversation."""

    recorded_agent: Agent
    agents: dict[str, Agent]
    offered: Sequence[Tool]
    mock_responses: list[str] | None
    inputs: dict[str, Any]
    deps: Any


def bytes_of_run(run: Run) -> int:
    """Return roughly how many bytes the run takes, with its resolved agent; never raises."""
    nodes = [run.recorded_agent, *run.agents.values(), *run.offered]
    declared = sum(len(node.model_dump_json(exclude_none=True)) for node in nodes)
    return (
        8 * declared
        + 4 * sum(map(len, run.mock_responses or ()))
        + 4 * len(repr((run.inputs, run.deps)))
    )


Value = TypeVar("Value")

DEFAULT_CACHE_BYTES = 128 * 1024 * 1024


class LinkKey(NamedTuple):
    """Identifies one link of a run."""

    workflow_id: str
    run_id: str


Read = Callable[[LinkKey, ConversationRef], Awaitable[Conversation]]
"""Reads a conversation at that version from a history."""


def current_link() -> LinkKey:
    """Return the link that the running activity belongs to."""
    return link_of(activity.info())


def link_of(info: activity.Info) -> LinkKey:
    """Return the link that an activity belongs to."""
    assert info.workflow_id is not None
    assert info.workflow_run_id is not None
    return LinkKey(info.workflow_id, info.workflow_run_id)


class KnownRun:
    """One link of a run: its agent, inputs and options, without its conversation."""

    def __init__(
        self,
        run_id: str,
        begun: RunInput,
        *,
        first_run_id: str = "",
        limits: WorkerLimits = OPEN,
    ) -> None:
        """`first_run_id` is that of the run's first link; "" for the first link itself."""
        self._limits = limits
        lineage = begun.lineage
        self.run_id = run_id
        self.first_run_id = first_run_id or run_id
        """The run id of the first link."""
        self.caller = lineage.trace if lineage else ""
        """The run's place in its caller's trace (`Lineage.trace`); "" if no run has called it."""
        self.is_called = lineage is not None
        """Whether another run has called it."""
        self.session = begun.session.session if begun.session else ""
        """The id of the session of which the run is a turn; "" otherwise."""
        self.recorded_agent = begun.agent
        self.inputs = begun.inputs
        self.deps = begun.deps
        """The deps of the run's functions, as JSON."""
        self.options: RunOptions = begun.options
        self.stream_seconds = heartbeat_intervals(begun.options).stream_seconds
        """Seconds between updates for readers of streamed output."""
        self.agents = dict(begun.agents)
        """The agents of other files that the run has recorded, by path."""
        self.mock_responses: list[str] | None = None
        """The mock answers that replace the model's (`Inventory.mock_responses`)."""
        self.offered: Sequence[Tool] = ()
        self.signatures: Mapping[str, RecordedSignature] = {}
        """The signatures of the tools' functions at the run's start, by name."""
        self.fitting: dict[str, Callable[..., Any]] = {}
        """This worker's functions that still fit these signatures, by name."""
        self._agent: Agent | None = None
        self._other: KnownRun | None = None

    @property
    def open_deps(self) -> Any:
        """A copy of the deps, for one function."""
        return None if self.deps is None else open_deps(self.deps)

    def with_model(self, model: Model) -> KnownRun:
        """Return the run with another model for its agent; the same object for the same model."""
        if self._other is None or self._other.recorded_agent.model != model:
            other = copy(self)
            other.recorded_agent = self.recorded_agent.model_copy(update={"model": model})
            other._agent = None
            vars(other).pop("credential_ids", None)
            self._other = other
        return self._other

    def offer(self, inventory: Inventory) -> None:
        """Complete the agent's declarations with the run's inventory: the model is offered this
        form.
        """
        self.offered = inventory.offered
        self.mock_responses = inventory.mock_responses
        self.signatures = {tool.name: tool.signature for tool in inventory.tools if tool.signature}
        self.fitting = {}
        if UNSEEN in inventory.hooks:
            self.options = self.options.model_copy(update={"stream": False})
        self.agents.update(agents_in(inventory.tools))
        if self._agent is not None:
            self._agent = self._agent.with_declarations(self.offered)

    @property
    def agent(self) -> Agent:
        """The agent as the model is offered it, with environment references resolved, credentials
        not. It stays the same object until `offer` completes it: `forget` compares it by identity.

        Raises `ConfigurationError` for an unset variable, and for an agent that exceeds the
        worker's limits.
        """
        if self._agent is None:
            self._agent = self.resolved()
        return self._agent

    @cached_property
    def credential_ids(self) -> Mapping[str, frozenset[str]]:
        """Ids of the credentials that the agent names, by tool; those of its model are under ""."""
        return credentials_in(self._used_agent)

    def resolved(self, credentials: Mapping[str, str] | None = None) -> Agent:
        """Return a new copy of `agent` with the secrets of these credentials, by id. Raises as
        `agent` does.
        """
        require_allowed(self._used_agent, self._limits)
        resolved = resolve_environment(self._used_agent, credentials)
        return with_others(resolved.with_declarations(self.offered), self.agents)

    @property
    def _used_agent(self) -> Agent:
        """The recorded agent, without a mocked model, whose key may be missing here."""
        mocked = self.mock_responses is not None
        return (
            self.recorded_agent.model_copy(update={"model": None})
            if mocked
            else self.recorded_agent
        )


class RunCache:
    """The most recent runs, bounded in bytes; a missing one is read from its history.

    Each model call needs the conversation at one exact version. The cache usually has that version
    or a slightly older one, which the operations in the call's input bring up to date.
    """

    def __init__(self, max_bytes: int = DEFAULT_CACHE_BYTES, limits: WorkerLimits = OPEN) -> None:
        self._limits = limits
        # Both are keyed by workflow id alone and hold the latest link of a run. A new link
        # continues the conversation of the one before it: a matching digest proves that it is the
        # right one.
        heads_bytes = max_bytes // HEADS_SHARE
        self._runs: LRUCache[str, KnownRun] = LRUCache(heads_bytes, getsizeof=bytes_of_run)
        self._conversations: LRUCache[str, Conversation] = LRUCache(
            max_bytes - heads_bytes, getsizeof=conversation_bytes
        )
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.hits = 0
        """Number of conversations found in the cache."""
        self.misses = 0
        """Number of conversations read from a history."""

    @property
    def bytes(self) -> int:
        """Roughly how many bytes of memory the cached runs take."""
        return int(self._runs.currsize + self._conversations.currsize)

    def __contains__(self, workflow_id: str) -> bool:
        return workflow_id in self._runs or workflow_id in self._conversations

    def new_run(self, run_id: str, begun: RunInput, first_run_id: str = "") -> KnownRun:
        """Return a run without its conversation, restricted by the worker's limits."""
        return KnownRun(run_id, begun, first_run_id=first_run_id, limits=self._limits)

    def add(self, workflow_id: str, run: KnownRun, conversation: Conversation | None) -> None:
        """Cache a run; the least recently used ones make room.

        `conversation` is None for a further link of a run: the cached conversation stays.
        """
        _keep(self._runs, workflow_id, run)
        if conversation is not None:
            _keep(self._conversations, workflow_id, conversation)

    def forget(self, workflow_id: str, run_id: str) -> None:
        """Drop an ended run or session; another run with the same workflow id stays."""
        known = self._runs.get(workflow_id)
        if known is None or known.run_id == run_id:
            self._runs.pop(workflow_id, None)
            self._conversations.pop(workflow_id, None)

    async def current(self) -> KnownRun:
        """Return the run of the current activity.

        Raises RPCError if its history is needed and unreadable, `ConfigurationError` if it can't be
        decoded, and `DigestMismatchError` if the history does not show the inventory: a server may
        show the last events late.
        """
        key = current_link()
        if known := self._known_run(key):
            return known
        async with self._lock(key):
            return await self._run(key)

    def at_hand(self) -> KnownRun | None:
        """Return the run of the current activity from the cache; None if it is missing. Reads no
        history.
        """
        info = activity.info()
        if info.workflow_id is None or info.workflow_run_id is None:
            return None
        return self._known_run(current_link())

    async def messages_at(self, reference: ConversationRef) -> tuple[KnownRun, list[Message]]:
        """Return the run of the current activity, and its conversation at exactly that version.

        Raises as `current` does, and `DigestMismatchError` if the history does not lead to that
        version: a server may show the last events late.
        """
        key = current_link()
        async with self._lock(key):
            messages = await self._messages(key, reference, self._read)
            return await self._run(key), messages

    async def messages_of(
        self, key: LinkKey, reference: ConversationRef, read: Read | None = None
    ) -> list[Message]:
        """Return the conversation of any link of a run, or from `read`, at that version. Raises as
        `messages_at`.
        """
        async with self._lock(key):
            return await self._messages(key, reference, read or self._read)

    def take(self, reference: ConversationRef, messages: Sequence[Message]) -> None:
        """Cache the conversation that the current activity's run continues; the run's own changes
        follow.
        """
        copy = Conversation.recorded(messages, version=reference.version, digest=reference.digest)
        _keep(self._conversations, current_link().workflow_id, copy)

    def _lock(self, key: LinkKey) -> asyncio.Lock:
        return self._locks.setdefault(key.workflow_id, asyncio.Lock())

    async def _run(self, key: LinkKey) -> KnownRun:
        if known := self._known_run(key):
            return known
        return self._remember(key, *await read_beginning(activity.client(), *key))

    def _known_run(self, key: LinkKey) -> KnownRun | None:
        known = self._runs.get(key.workflow_id)
        return known if known is not None and known.run_id == key.run_id else None

    def _remember(
        self, key: LinkKey, input: RunInput, inventory: Inventory | None, first_run_id: str
    ) -> KnownRun:
        # After a reset, `input.carried` has the wrong one: Temporal continues with another run id.
        if inventory is None:
            raise DigestMismatchError(
                f"the history of {key.workflow_id!r} does not show the run's inventory yet"
            )
        run = self.new_run(key.run_id, input, first_run_id)
        run.offer(inventory)
        _keep(self._runs, key.workflow_id, run)
        return run

    async def _messages(
        self, key: LinkKey, reference: ConversationRef, read: Read
    ) -> list[Message]:
        conversation = self._conversations.pop(key.workflow_id, None)
        if conversation is not None and conversation.catches_up(reference):
            self.hits += 1
        else:
            self.misses += 1
            conversation = await read(key, reference)
        _keep(self._conversations, key.workflow_id, conversation)
        return list(conversation.messages)

    async def _read(self, key: LinkKey, reference: ConversationRef) -> Conversation:
        recorded = await read_link(activity.client(), *key)
        conversation = recorded.conversation(reference.version)
        conversation.follow(reference)
        conversation.forget_operations()
        if self._known_run(key) is None:
            started = recorded.history[0].workflow_execution_started_event_attributes
            self._remember(key, recorded.input, recorded.inventory, started.first_execution_run_id)
        return conversation


def _keep(cache: LRUCache[str, Value], workflow_id: str, value: Value) -> None:
    """Keep the value in place of an older one; one that is larger than the whole cache is
    dropped.
    """
    cache.pop(workflow_id, None)
    with suppress(ValueError):  # cachetools: "value too large"
        cache[workflow_id] = value
