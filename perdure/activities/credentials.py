"""Resolves the credential ids in agents to secrets: the worker asks its owner when an activity
needs one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from cachetools import TTLCache
from temporalio import activity

from ..agents import Agent
from ..errors import ConfigurationError
from ..prompty.portable import credentials_in, resolve_environment
from ..protocol.activities import CONFIGURATION_ERROR
from ..protocol.inventory import MissingPart
from ..redaction import redacted_excerpt
from ..text import one_line
from ..tools.signature import is_async
from ..tools.user_loop import UserLoop
from .run_cache import KnownRun

CREDENTIAL_SECONDS = 10.0
"""Seconds that the owner's function has for one credential."""
KEPT_SECONDS = 30.0
"""Seconds for which its answer is cached. A worker may send a replaced credential for this long."""
MAX_KEPT = 10_000

CredentialSource = Mapping[Any, str] | Callable[[str], str | None | Awaitable[str | None]]
"""The secrets by id, or a function, plain or async, from an id to its secret."""


class _Given(NamedTuple):
    unresolved: Agent
    values: Mapping[str, str]
    agent: Agent


class UnknownCredentialError(ConfigurationError):
    """This worker has no credential of that id; another worker may have it."""

    def __init__(self, ids: Collection[str], known: str) -> None:
        named = ", ".join(map(repr, sorted(ids)))
        super().__init__(
            f"The agent names the credential {named}, which this worker does not have ({known}): "
            "give it to the workers by create_worker(credentials=…), a mapping or a function from "
            "an id to its secret, or by perdure worker --credentials MODULE:NAME"
        )
        self.ids = sorted(ids)

    def lack(self) -> MissingPart:
        """Return the missing credentials, for other workers."""
        return _missing_credentials(self.ids, str(self))


class CredentialError(Exception):
    """The owner's function failed, or took too long. The next attempt may succeed."""

    def __init__(self, text: str, id: str, *, is_late: bool = False) -> None:
        super().__init__(text)
        self.id = id
        self.is_late = is_late

    def lack(self) -> MissingPart:
        """Return the missing credential, for other workers."""
        return _missing_credentials([self.id], str(self))


def _missing_credentials(ids: Collection[str], text: str) -> MissingPart:
    what = [f"credential {id!r}" for id in ids]
    return MissingPart(
        what=what, kind=CONFIGURATION_ERROR, text=text, task_queue=activity.info().task_queue
    )


class Credentials:
    """The credentials of `create_worker(credentials=…)`. Raises ConfigurationError for a source
    that is neither a mapping nor a function.
    """

    def __init__(
        self,
        source: CredentialSource | None,
        loop: UserLoop,
        *,
        seconds: float = CREDENTIAL_SECONDS,
    ) -> None:
        if source is not None and not isinstance(source, Mapping) and not callable(source):
            raise ConfigurationError(
                f"credentials is {type(source).__name__}: expected a mapping from ids to secrets, "
                "or a function"
            )
        self._source = source
        self._loop = loop
        self._seconds = seconds
        self._kept: TTLCache[str, str] = TTLCache(MAX_KEPT, KEPT_SECONDS)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._agents: WeakKeyDictionary[KnownRun, dict[frozenset[str], _Given]] = (
            WeakKeyDictionary()
        )

    async def for_model(self, run: KnownRun) -> Agent:
        """Return the run's agent with its model's secrets. Raises UnknownCredentialError and
        CredentialError.
        """
        return await self._agent_with(run, run.credential_ids.get("", frozenset()))

    async def for_tool(self, run: KnownRun, name: str) -> Agent:
        """Return the run's agent with the secrets of the tool that has this function. Raises as
        `for_model` does.
        """
        tool = run.agent.tool(name)
        owner = name if tool is None else run.agent.source(tool).name
        return await self._agent_with(run, run.credential_ids.get(owner, frozenset()))

    async def for_inventory(self, run: KnownRun) -> Agent:
        """Return the run's agent with all of its secrets, which detects missing ones. Raises as
        `for_model` does.
        """
        return await self._agent_with(run, frozenset().union(*run.credential_ids.values()))

    async def for_compactor(self, agent: Agent) -> Agent:
        """Return a compactor's agent with its secrets. Raises as `for_model` does."""
        ids = credentials_in(agent).get("")
        return resolve_environment(agent, await self._values(ids)) if ids else agent

    def forget(self, run: KnownRun, refused: Agent) -> bool:
        """Drop the cached secrets of a refused agent, so that the next call asks for them. Return
        False if there is no function to ask.

        Keeps newer secrets, which another refused call has fetched meanwhile.
        """
        for given in self._agents.get(run, {}).values():
            old = given.values if given.agent is refused else {}
            for id in [id for id, value in old.items() if self._kept.get(id) == value]:
                self._kept.pop(id, None)
        return callable(self._source) and refused is not run.agent

    async def _agent_with(self, run: KnownRun, ids: frozenset[str]) -> Agent:
        if not ids:
            return run.agent
        values, given = await self._values(ids), self._agents.setdefault(run, {})
        if (known := given.get(ids)) is None or known[:2] != (run.agent, values):
            known = given[ids] = _Given(run.agent, values, run.resolved(values))
        return known.agent

    async def _values(self, ids: frozenset[str]) -> dict[str, str]:
        found = await asyncio.gather(*map(self._value, ids), return_exceptions=True)
        unknown = [id for id, value in zip(ids, found, strict=True) if value is None]
        if unknown:
            raise UnknownCredentialError(unknown, self._known_ids())
        for value in found:
            if isinstance(value, BaseException):
                raise value
        return {id: str(value) for id, value in zip(ids, found, strict=True)}

    def _known_ids(self) -> str:
        if self._source is None:
            return "it has none"
        if callable(self._source):
            return "its function knows no such id"
        return f"it has: {one_line(', '.join(sorted(map(str, self._source))), 500) or 'none'}"

    async def _value(self, id: str) -> str | None:
        if self._source is None:
            return None
        if isinstance(self._source, Mapping):
            return _secret(id, _entry_of(self._source, id))
        try:
            async with asyncio.timeout(self._seconds):
                return await self._answer(self._source, id)
        except TimeoutError:
            text = f"The worker's credentials gave no answer within {self._seconds:g} s for {id!r}"
            raise CredentialError(text, id, is_late=True) from None

    async def _answer(self, function: Callable[[str], Any], id: str) -> str | None:
        async with self._locks.setdefault(id, asyncio.Lock()):
            if (kept := self._kept.get(id)) is not None:
                return kept
            ended = await self._loop.end_of(
                partial(function, id), f"credential {id}", is_async=is_async(function)
            )
            if isinstance(ended.raised, LookupError):
                return None
            if ended.raised is not None:
                raise _failure(id, ended.raised)
            value = _secret(id, ended.value)
            if value is not None:
                self._kept[id] = value
            return value


def _entry_of(source: Mapping[Any, str], id: str) -> Any:
    """Return the entry of an id; the key may also be a number, as Octopus has it. Raises
    CredentialError.
    """
    try:
        return source.get(id, source.get(int(id)) if id.isdecimal() else None)
    except Exception as error:
        raise _failure(id, error) from error


def _failure(id: str, error: BaseException) -> CredentialError:
    try:
        said = f"{type(error).__name__}: {error}"
    except Exception:
        said = type(error).__name__
    return CredentialError(
        f"The worker's credentials failed for {id!r}: {one_line(redacted_excerpt(said), 500)}", id
    )


def _secret(id: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        found = "an empty text" if isinstance(value, str) else type(value).__name__
        raise CredentialError(
            f"The worker's credentials gave {found} for {id!r}: expected its secret as a text", id
        )
    # A secret read from a file ends with a newline, which no header may contain.
    return value.rstrip("\r\n")
