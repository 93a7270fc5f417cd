"""What all dialects stand on: the agents that are offered, who may reach which run, starts that count once."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from starlette.requests import Request
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionDescription
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
from ..vouching import Voucher, VouchKeys, vouch_keys
from ..webhooks import Webhook, distinct_webhooks
from .attempts import Attempts
from .ending import OpenRequests
from .identity import IDENTIFIED, Authenticator, Identity, identity_of
from .problems import HttpProblem, require_plain
from .sse import STREAM_SECONDS

MEMO = "gateway"
"""The name in a run's memo of what the request was that has started it."""


@dataclass(frozen=True)
class OfferedAgent:
    """One agent that the gateway has for those who ask."""

    name: str
    agent: Agent
    path: Path


def offers_of(paths: Sequence[Path]) -> dict[str, OfferedAgent]:
    """Load the agents; each is offered by its file's name, without the ending.

    Raises what `load` raises, and `ConfigurationError` for two of one name and for one that can't be started because
    a secret stands in its file.
    """
    offers: dict[str, OfferedAgent] = {}
    for path in paths:
        name = path.name.removesuffix(".prompty")
        if name in offers:
            raise ConfigurationError(
                f"{str(path)!r} and {str(offers[name].path)!r} would both be offered as {name!r}: rename one of them"
            )
        offers[name] = OfferedAgent(name, load(path), path)
        try:
            portable(offers[name].agent)
        except ConfigurationError as error:
            raise ConfigurationError(f"{str(path)!r} can't be offered: {error}") from None
    if not offers:
        raise ConfigurationError("a gateway without agents has nothing to offer: name at least one .prompty file")
    return offers


EQUAL_SECONDS = 900.0
"""A request that comes again without a key is looked for among the equal ones of the last so many seconds."""
MAX_EQUAL = 20
"""So many equal requests may be started at the same moment."""


@dataclass(frozen=True)
class FoundRun:
    """A run that who asks may reach."""

    handle: RunHandle
    first_run_id: str
    described: WorkflowExecutionDescription

    @property
    def id(self) -> str:
        """The workflow id."""
        return self.handle.id

    @property
    def has_ended(self) -> bool:
        """Whether it is over."""
        return self.described.close_time is not None


@dataclass
class Gateway:
    """Agents, a Temporal client, and who may ask."""

    client: Client
    offers: Mapping[str, OfferedAgent]
    task_queue: str = "perdure"
    authenticators: Sequence[Authenticator] = ()
    answers_tasks: bool = False
    """Whether the agent's model is called for what front ends ask beside the conversation, such as titles."""
    patience_seconds: float = 40.0
    """After so long an MCP call is answered with how to get its result: clients give up after 45 to 60 s."""
    cancels_tasks: bool = False
    """Whether `tasks/cancel` of an MCP client cancels the run also without a reason: some send it when they end."""
    stream_after: int | None = 0
    """From how many characters on a text is streamed that may precede tool calls (§9.3); None for not at all."""
    stream_seconds: float = STREAM_SECONDS
    """After so long streams that can be gone on with end by themselves, and say how."""
    hooks: JsonView = field(default_factory=dict)
    """Fields of `RunOptions` that all its runs have: the names of their guardrails and their compactor."""
    webhooks: Sequence[Webhook] = ()
    """Who is told what becomes of the runs that are started here, beside those that the agents' files name."""
    attempts: Attempts = field(default_factory=Attempts)
    ending: OpenRequests = field(default_factory=OpenRequests)
    keys: VouchKeys = field(default_factory=vouch_keys)
    """With which the gateway vouches for those who ask; those of the environment."""

    def __post_init__(self) -> None:
        self.client = with_converter(self.client)

    async def identify(self, request: Request) -> Identity:
        """Return who asks. Raises `HttpProblem`, also where who asks has asked too much."""
        identity = await identity_of(request.headers, self.authenticators)
        if identified := request.scope.get(IDENTIFIED):
            identified(identity)
        return identity

    def voucher(self, identity: Identity) -> Voucher | None:
        """Return what vouches for who asks; None where the gateway has no key, or asks nobody who they are."""
        if not self.keys.keys or not self.authenticators:
            return None
        return Voucher(identity.name, identity.tenant, identity.roles, self.keys)

    def offer(self, name: str) -> OfferedAgent:
        """Return the agent of that name. Raises `HttpProblem`."""
        if name not in self.offers:
            expected = ", ".join(self.offers)
            raise HttpProblem(404, "unknown_agent", f"There is no agent {name!r} here: expected {expected}")
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
        is_new: bool = False,
        options: RunOptions | None = None,
        about: JsonView | None = None,
        origin: str,
    ) -> tuple[RunHandle, bool]:
        """Start a run; returns its handle, and whether it has been started now.

        What comes again under the same `key` is one run. With `is_new`, no run had the `id` before. `about` is what its
        memo keeps of the request, `origin` names the protocol (`PerdureOrigin`). Raises `HttpProblem` for another
        request under the key, and what `start_run` raises.
        """
        asked = [offer.name, dict(inputs or {}), [each.model_dump(mode="json") for each in messages or ()]]
        digest = digest_of([*asked, options.model_dump(mode="json", exclude_unset=True) if options else None])
        memo = {MEMO: {"request": digest, "by": identity.name, **(about or {})}}
        voucher = self.voucher(identity)
        start: StartOptions = {"tenant": identity.tenant, "memo": memo, "origin": origin, "voucher": voucher}
        if key:
            id = id or f"{offer.name}-{digest_of([identity.tenant, key])}"
        if key or is_new:
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
            if not key:
                raise
            found = await self.run(identity, error.workflow_id)
            if (await found.described.memo_value(MEMO, {})).get("request") != digest:
                raise HttpProblem(
                    409, "key_reused", f"The key {key!r} stands for another request already: give a new one"
                ) from error
            return found.handle, False
        return run, True

    async def start_equal(self, identity: Identity, offer: OfferedAgent, request: Any, **start: Any) -> RunHandle:
        """Start a run for a request without a key, unless the run of the last equal one is open.

        Equal requests of the last minutes have ids that can be counted through; `request` says what is equal, and
        `start` are arguments of `start`. Raises what `start` raises.
        """
        digest = digest_of([identity.tenant, identity.name, offer.name, request])
        window = int(time.time() // EQUAL_SECONDS)
        last, number = await self._last_equal(identity, f"{offer.name}-{digest}-{window:x}")
        if last is None:
            last, _ = await self._last_equal(identity, f"{offer.name}-{digest}-{window - 1:x}")
        if last is not None and not last.has_ended:
            return last.handle
        for each in range(number, number + MAX_EQUAL):
            try:
                id = f"{offer.name}-{digest}-{window:x}-{each}"
                run, _ = await self.start(identity, offer, id=id, is_new=True, **start)
            except WorkflowAlreadyStartedError:
                continue
            return run
        raise HttpProblem(429, "too_many_equal", f"{MAX_EQUAL} equal requests have come at once: send a key with each")

    async def _last_equal(self, identity: Identity, base: str) -> tuple[FoundRun | None, int]:
        """Return the last run whose id begins so, if there is one, and the number of the next."""
        last: FoundRun | None = None
        number = 0
        while described := await self._description(scoped_id(identity, f"{base}-{number}")):
            last, number = self._found_run(identity, described), number + 1
        return last, number

    def _found_run(self, identity: Identity, described: WorkflowExecutionDescription) -> FoundRun:
        first = described.raw_description.workflow_execution_info.first_run_id or described.run_id
        handle = RunHandle(self.client, described.id, origin=first, voucher=self.voucher(identity))
        return FoundRun(handle, first, described)

    async def run(self, identity: Identity, id: str) -> FoundRun:
        """Return the run of that id. Raises `HttpProblem` where there is none, and where it is another tenant's."""
        for each in dict.fromkeys([id, scoped_id(identity, id)]):
            described = await self._description(each)
            if described and described.workflow_type == WORKFLOW and may_reach(identity, described):
                return self._found_run(identity, described)
        raise HttpProblem(404, "not_found", f"There is no run {id!r}")

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
        *,
        about: JsonView | None = None,
    ) -> Session:
        """Return the session of that id; one that there is not is begun by its first message, where `offer` is given.

        `about` is what the memo of one that begins keeps of the request. Raises `HttpProblem` where there is none and
        none can begin, and where it is another tenant's.
        """
        if (described := await self._find_session(identity, id)) is not None:
            return self._session(identity, described.id, offer, about)
        if offer is None:
            raise HttpProblem(404, "not_found", f"There is no session {id!r}")
        new = scoped_id(identity, id)
        described = await self._description(new)
        # It may have begun since it was looked for, by another request of the same client.
        if described is not None and not (
            described.workflow_type == SESSION_WORKFLOW and may_reach(identity, described)
        ):
            raise HttpProblem(409, "id_in_use", f"The id {id!r} is not free: give the session another one")
        return self._session(identity, new, offer, about)

    async def described_session(self, identity: Identity, id: str) -> WorkflowExecutionDescription:
        """Return what the server says of the session of that id. Raises `HttpProblem` as `session` does."""
        if (described := await self._find_session(identity, id)) is None:
            raise HttpProblem(404, "not_found", f"There is no session {id!r}")
        return described

    async def _find_session(self, identity: Identity, id: str) -> WorkflowExecutionDescription | None:
        for each in dict.fromkeys([scoped_id(identity, id), id]):
            described = await self._description(each)
            if described and described.workflow_type == SESSION_WORKFLOW and may_reach(identity, described):
                return described
        return None

    def _session(self, identity: Identity, id: str, offer: OfferedAgent | None, about: JsonView | None) -> Session:
        return session(
            self.client,
            offer.agent if offer else None,
            id,
            task_queue=self.task_queue,
            options=self._with_own(RunOptions(stream=True)),
            tenant=identity.tenant,
            user=identity.name,
            memo={MEMO: dict(about)} if about else None,
            voucher=self.voucher(identity),
        )

    def _with_own(self, options: RunOptions | None) -> RunOptions | None:
        if not (self.webhooks or self.hooks):
            return options
        given = options or RunOptions()
        own: JsonObject = dict(self.hooks)
        if self.webhooks:
            own["webhooks"] = distinct_webhooks(given.webhooks, self.webhooks)
        return given.model_copy(update=own)

    def stream(self, run: FoundRun, after: int | str = 0, *, children: bool = False) -> AsyncGenerator[RunEvent, None]:
        """Yield the run's events after a position, as `RunHandle.stream` does.

        Raises `GatewayEnds` when this process ends.
        """
        events = run.handle.stream(after, children=children)
        return self.ending.waits.until_cut(cast(AsyncGenerator[RunEvent, None], events))

    async def list(
        self, identity: Identity, conditions: Sequence[str] = (), *, limit: int = 100, workflow: str = WORKFLOW
    ) -> list[WorkflowExecution]:
        """Return the newest runs that who asks may reach; `conditions` are of Temporal's list filters."""
        own = [f"{TENANT.name} = {quote(identity.tenant)}"] if identity.tenant is not None else []
        require_plain("".join(conditions))
        query = " AND ".join([f"WorkflowType = '{workflow}'", "ExecutionStatus != 'ContinuedAsNew'", *own, *conditions])
        return [each async for each in self.client.list_workflows(query, limit=limit)]

    async def require_tenants(self) -> None:
        """Raises `ConfigurationError` where the server can't tell tenants apart."""
        try:
            await self.client.count_workflows(f"{TENANT.name} = 'none'")
        except RPCError as error:
            if error.status is not RPCStatusCode.INVALID_ARGUMENT:
                raise
            raise ConfigurationError(
                f"The namespace {self.client.namespace!r} does not know the search attribute {TENANT.name}, by which "
                "the runs of a tenant are told from those of others. Register it: perdure setup"
            ) from error


def may_reach(identity: Identity, run: WorkflowExecution) -> bool:
    """Return whether the run is of the tenant of who asks, or who asks is of none."""
    return identity.tenant is None or run.typed_search_attributes.get(TENANT) == identity.tenant


def scoped_id(identity: Identity, id: str) -> str:
    """Return an id that a client has chosen, so that those of two tenants never meet.

    Raises `HttpProblem` for one that no server takes.
    """
    require_plain(id)
    if identity.tenant is None:
        return id
    # With a colon in a tenant's name, one tenant's ids could be another's.
    prefix = identity.tenant.replace("%", "%25").replace(":", "%3A") + ":"
    return id if id.startswith(prefix) else f"{prefix}{id}"


def session_of(run_id: str) -> str:
    """Return the id of the session that the run is a turn of; "" for none."""
    session, _, turn = run_id.rpartition("/")
    return session if turn.isascii() and turn.isdigit() else ""


def digest_of(value: Any) -> str:
    """Return what is equal for equal JSON values, as 32 hexadecimal digits."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
