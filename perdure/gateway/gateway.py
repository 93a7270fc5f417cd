"""The common base of all dialects: the offered agents, access to runs, and idempotent starts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from cachetools import Cache, LRUCache
from starlette.requests import Request
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionCount,
    WorkflowExecutionDescription,
)
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from ..agents import Agent
from ..client import RunHandle, Session, session, start_run
from ..client.starting import StartOptions
from ..errors import ConfigurationError
from ..events import RunEvent
from ..json_types import JsonObject, JsonView
from ..messages import Message
from ..options import RunOptions
from ..payloads.converter import with_converter
from ..prompty.load import load
from ..prompty.portable import portable
from ..protocol.names import SESSION_WORKFLOW, WORKFLOW
from ..protocol.search_attributes import TENANT, quote
from ..protocol.signatures import Voucher, VouchKeys, vouch_keys
from ..webhooks import Webhook, distinct_webhooks
from .attempts import LostAnswers
from .ending import OpenRequests
from .identity import IDENTIFIED, Authenticator, Identity, identity_of
from .problems import HttpProblem, require_plain

MAX_SURVEYED = 20_000
"""The most calls in `Gateway.surveys`."""
MEMO = "gateway"
"""The key, in a run's memo, of data about the request that started it."""


@dataclass(frozen=True)
class OfferedAgent:
    """One agent that the gateway offers."""

    name: str
    agent: Agent
    path: Path

    @property
    def description(self) -> str:
        """The text by which programs choose the agent."""
        return self.agent.description or f"The agent {self.name}."


class Closable(Protocol):
    """Has to be closed when the gateway ends."""

    def close(self) -> None:
        """End its work."""


def offers_of(paths: Sequence[Path]) -> dict[str, OfferedAgent]:
    """Load the agents; each is offered under its file's name, without the suffix.

    Raises as `load` does, and `ConfigurationError` for two agents of one name and for an agent that
    can't be started because its file contains a secret.
    """
    offers: dict[str, OfferedAgent] = {}
    for path in paths:
        name = path.name.removesuffix(".prompty")
        if name in offers:
            raise ConfigurationError(
                f"{str(path)!r} and {str(offers[name].path)!r} would both be offered as {name!r}: "
                "rename one of them"
            )
        offers[name] = OfferedAgent(name, load(path), path)
        try:
            portable(offers[name].agent)
        except ConfigurationError as error:
            raise ConfigurationError(f"{str(path)!r} can't be offered: {error}") from None
    if not offers:
        raise ConfigurationError(
            "a gateway without agents has nothing to offer: name at least one .prompty file"
        )
    return offers


@dataclass(frozen=True)
class FoundRun:
    """A run that the client may access."""

    handle: RunHandle
    first_run_id: str
    described: WorkflowExecutionDescription

    @property
    def id(self) -> str:
        """The workflow id."""
        return self.handle.id

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended."""
        return self.described.close_time is not None


@dataclass
class Gateway:
    """Agents, a Temporal client, and the authenticators of clients."""

    client: Client
    offers: Mapping[str, OfferedAgent]
    task_queue: str = "perdure"
    authenticators: Sequence[Authenticator] = ()
    patience_seconds: float = 40.0
    """Seconds after which an MCP call returns instructions for getting its result: clients give up
    after 45 to 60 s."""
    cancels_tasks: bool = False
    """Whether `tasks/cancel` of an MCP client cancels the run even without a reason: some clients
    send it on exit."""
    stream_after: int | None = 0
    """The number of characters after which a text that may precede tool calls is streamed (§9.3);
    None for never."""
    held_seconds: float = 15.0
    """Seconds that a request waits for a held run's release."""
    hooks: JsonView = field(default_factory=dict)
    """Fields of `RunOptions` for all runs started here: the names of their guardrails and their
    compactor."""
    webhooks: Sequence[Webhook] = ()
    """Webhooks of all runs started here, in addition to those in the agents' files."""
    examine: Callable[[], Awaitable[JsonObject]] | None = None
    """Returns the findings about the server, its workers and its runs; None if nobody can."""
    ui_url: Callable[[str], str | None] | None = None
    """Returns the address of a run in Temporal's UI, if it is known."""
    attempts: LostAnswers = field(default_factory=LostAnswers)
    ending: OpenRequests = field(default_factory=OpenRequests)
    surveys: Cache[tuple[str, str, int], list[Any]] = field(
        default_factory=lambda: LRUCache(MAX_SURVEYED, getsizeof=lambda calls: len(calls) + 1)
    )
    """The executed calls of runs read lately, by id, run id and number of events."""
    keys: VouchKeys = field(default_factory=vouch_keys)
    """Keys with which the gateway signs clients' identities, from the environment."""
    push: Closable | None = None
    """The `WebPush`, which sends calls that begin to wait to browsers; None without a key."""

    def __post_init__(self) -> None:
        self.client = with_converter(self.client)

    async def identify(self, request: Request) -> Identity:
        """Return the client's identity. Raises `HttpProblem`."""
        known: Identity | Exception | None = request.scope.get(IDENTIFIED)
        if isinstance(known, Exception):
            raise known
        return known or await identity_of(request.headers, self.authenticators)

    def voucher(self, identity: Identity) -> Voucher | None:
        """Return the voucher for the client's identity; None if the gateway has no key or
        authenticates nobody.
        """
        if not self.keys.keys or not self.authenticators:
            return None
        return Voucher(identity.name, identity.tenant, identity.roles, self.keys)

    def offer(self, name: str) -> OfferedAgent:
        """Return the agent of that name. Raises `HttpProblem`."""
        if name not in self.offers:
            expected = ", ".join(self.offers)
            raise HttpProblem(
                404, "unknown_agent", f"There is no agent {name!r} here: expected {expected}"
            )
        return self.offers[name]

    async def start(
        self,
        identity: Identity,
        offer: OfferedAgent,
        inputs: JsonView | None = None,
        *,
        messages: Sequence[Message] | None = None,
        key: str = "",
        id: str = "",
        options: RunOptions | None = None,
        about: JsonView | None = None,
        origin: str,
    ) -> tuple[RunHandle, bool]:
        """Start a run, and return its handle and whether this call started it.

        Requests with the same `key` start one run. `about` is stored in the run's memo, `origin`
        names the protocol (`PerdureOrigin`). Raises `HttpProblem` for a different request with the
        same key, and as `start_run` does.
        """
        asked = [
            offer.name,
            dict(inputs or {}),
            [each.model_dump(mode="json") for each in messages or ()],
        ]
        digest = digest_of(
            [*asked, options.model_dump(mode="json", exclude_unset=True) if options else None]
        )
        memo = {MEMO: {"request": digest, "by": identity.name, **(about or {})}}
        voucher = self.voucher(identity)
        start: StartOptions = {
            "tenant": identity.tenant,
            "memo": memo,
            "origin": origin,
            "voucher": voucher,
        }
        if key:
            id = id or f"{offer.name}-{digest_of([identity.tenant, key])}"
            start["id_reuse_policy"] = WorkflowIDReusePolicy.REJECT_DUPLICATE
        try:
            run = await start_run(
                self.client,
                offer.agent,
                inputs,
                messages=messages,
                task_queue=self.task_queue,
                id=scoped_id(identity, id) if id else None,
                options=self._with_own(options),
                **start,
            )
        except WorkflowAlreadyStartedError as error:
            return await self._started_before(identity, error, key, digest), False
        return run, True

    async def _started_before(
        self, identity: Identity, error: WorkflowAlreadyStartedError, key: str, digest: str
    ) -> RunHandle:
        """Return the run that a request of that key and digest has started. Raises `HttpProblem` if
        another request has, and `error` without a key.
        """
        if not key:
            raise error
        found = await self.run(identity, error.workflow_id)
        if (await found.described.memo_value(MEMO, {})).get("request") != digest:
            raise HttpProblem(
                409,
                "key_reused",
                f"The key {key!r} was used for another request: give a new one",
            ) from error
        return found.handle

    async def fork(
        self,
        identity: Identity,
        run: FoundRun,
        at: int,
        *,
        key: str,
        id: str | None,
        **changes: Any,
    ) -> tuple[str, bool]:
        """Fork a run, and return the new one's id and whether this call started it.

        Requests with the same `key` start one run. Raises as `start` and `RunHandle.fork` do.
        """
        origin = [run.id, run.first_run_id]
        digest = digest_of([*origin, at, changes])
        if key:
            id = id or f"fork-{digest_of([*origin, key])}"
        try:
            forked = await run.handle.fork(
                at,
                id=id and scoped_id(identity, id),
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE if key else None,
                memo={MEMO: {"request": digest, "by": identity.name}},
                **changes,
            )
        except WorkflowAlreadyStartedError as error:
            return (await self._started_before(identity, error, key, digest)).id, False
        return forked.id, True

    async def run(self, identity: Identity, id: str) -> FoundRun:
        """Return the run of that id. Raises `HttpProblem` if there is none, or if it belongs to
        another tenant.
        """
        described = await self._find(identity, WORKFLOW, id, scoped_id(identity, id))
        if described is None:
            raise HttpProblem(404, "not_found", f"There is no run {id!r}")
        first = described.raw_description.workflow_execution_info.first_run_id or described.run_id
        handle = RunHandle(self.client, described.id, origin=first, voucher=self.voucher(identity))
        return FoundRun(handle, first, described)

    async def _find(
        self, identity: Identity, kind: str, *ids: str
    ) -> WorkflowExecutionDescription | None:
        """Return the first workflow of that kind under one of these ids that the client may
        access.
        """
        for id in dict.fromkeys(ids):
            described = await self._description(id)
            if described and described.workflow_type == kind and may_reach(identity, described):
                return described
        return None

    async def _description(self, id: str) -> WorkflowExecutionDescription | None:
        try:
            return await self.client.get_workflow_handle(id).describe()
        except RPCError as error:
            if error.status in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT):
                return None
            raise

    async def session(
        self,
        identity: Identity,
        id: str,
        offer: OfferedAgent | None = None,
        messages: Sequence[Message] | None = None,
    ) -> Session:
        """Return the session of that id. With `offer`, the first message begins a missing session,
        which continues `messages` if they are given.

        Raises `HttpProblem` if there is none and none can begin, or if it belongs to another
        tenant.
        """
        described = await self._find_session(identity, id)
        if described is None and offer is None:
            raise HttpProblem(404, "not_found", f"There is no session {id!r}")
        new = scoped_id(identity, id)
        # Another request of the same client may begin the session after the first look-up.
        if (
            described is None
            and await self._description(new)
            and not (described := await self._find_session(identity, id))
        ):
            raise HttpProblem(
                409, "id_in_use", f"The id {id!r} is in use: give the session another one"
            )
        return session(
            self.client,
            offer.agent if offer else None,
            described.id if described else new,
            task_queue=self.task_queue,
            options=self._with_own(RunOptions(stream=True)),
            tenant=identity.tenant,
            user=identity.name,
            voucher=self.voucher(identity),
            messages=messages,
        )

    async def _find_session(
        self, identity: Identity, id: str
    ) -> WorkflowExecutionDescription | None:
        return await self._find(identity, SESSION_WORKFLOW, scoped_id(identity, id), id)

    def _with_own(self, options: RunOptions | None) -> RunOptions | None:
        if not (self.webhooks or self.hooks):
            return options
        given = options or RunOptions()
        own: JsonObject = dict(self.hooks)
        if self.webhooks:
            own["webhooks"] = distinct_webhooks(given.webhooks, self.webhooks)
        return given.model_copy(update=own)

    def stream(
        self, run: FoundRun, after: int | str = 0, *, children: bool = False
    ) -> AsyncGenerator[RunEvent, None]:
        """Yield the run's events after a position, as `RunHandle.stream` does.

        Raises `GatewayEnds` when this process ends.
        """
        events = run.handle.stream(after, children=children)
        return self.ending.waits.until_cut(cast(AsyncGenerator[RunEvent, None], events))

    async def list(
        self,
        identity: Identity,
        conditions: Sequence[str] = (),
        *,
        limit: int = 100,
        workflow: str = WORKFLOW,
    ) -> list[WorkflowExecution]:
        """Return the newest runs that the client may access; `conditions` are parts of Temporal's
        list filters.
        """
        query = self._filter(identity, conditions, workflow)
        return [each async for each in self.client.list_workflows(query, limit=limit)]

    async def count(
        self, identity: Identity, conditions: Sequence[str], group: str = ""
    ) -> WorkflowExecutionCount:
        """Return the number of runs that the client may access, by the attribute `group` if
        given.
        """
        by = f" GROUP BY {group}" if group else ""
        return await self.client.count_workflows(self._filter(identity, conditions, WORKFLOW) + by)

    def _filter(self, identity: Identity, conditions: Sequence[str], workflow: str) -> str:
        own = [f"{TENANT.name} = {quote(identity.tenant)}"] if identity.tenant is not None else []
        require_plain("".join(conditions))
        return " AND ".join(
            [
                f"WorkflowType = '{workflow}'",
                "ExecutionStatus != 'ContinuedAsNew'",
                *own,
                *conditions,
            ]
        )

    async def require_tenants(self) -> None:
        """Raise `ConfigurationError` if the server cannot separate tenants."""
        try:
            await self.client.count_workflows(f"{TENANT.name} = 'none'")
        except RPCError as error:
            if error.status is not RPCStatusCode.INVALID_ARGUMENT:
                raise
            raise ConfigurationError(
                f"The namespace {self.client.namespace!r} does not know the search attribute "
                f"{TENANT.name}, which marks the runs of a tenant. "
                "Register it: perdure setup"
            ) from error


def may_reach(identity: Identity, run: WorkflowExecution) -> bool:
    """Return whether the run belongs to the client's tenant, or the client has no tenant."""
    return identity.tenant is None or run.typed_search_attributes.get(TENANT) == identity.tenant


def scoped_id(identity: Identity, id: str) -> str:
    """Return a client's chosen id in a form that never collides with other tenants' ids.

    Raises `HttpProblem` for an id that the server would refuse.
    """
    require_plain(id)
    if identity.tenant is None:
        return id
    # With a colon in a tenant's name, two tenants' ids could collide.
    prefix = identity.tenant.replace("%", "%25").replace(":", "%3A") + ":"
    return id if id.startswith(prefix) else f"{prefix}{id}"


def session_of(run_id: str) -> str:
    """Return the id of the run's session; "" for none."""
    session, _, turn = run_id.rpartition("/")
    return session if turn.isascii() and turn.isdigit() else ""


def digest_of(value: Any) -> str:
    """Return a digest that is equal for equal JSON values, as 32 hexadecimal digits."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
