"""perdure's own API: runs, their events, waits for a person, and sessions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute
from temporalio.client import WorkflowExecution, WorkflowExecutionCount

from ..client import complete_call
from ..client.fork import fork_of, fork_origin, forks_of
from ..client.listing import listed_status, status_condition, status_named
from ..client.sessions.reading import parse_position
from ..errors import RunError
from ..events import TERMINAL_EVENTS, RunEvent, as_changes
from ..history.chain import Chain
from ..history.link import read_input
from ..json_types import JsonObject
from ..messages import Message
from ..options import CHANGED_BY_GO_ON, RunOptions
from ..protocol.later import read_token
from ..protocol.names import SESSION_WORKFLOW
from ..protocol.search_attributes import AGENT, COST, ORIGIN, SESSION, TENANT, quote, shown_of
from ..protocol.session import SessionStatus
from ..trace_ids import TraceIds
from . import executions, operate, push
from .gateway import FoundRun, Gateway, OfferedAgent
from .identity import ANYBODY, Identity
from .operations import Endpoint, HttpCall, Nothing, known_route, openapi_document, route_of
from .own_types import (
    AgentView,
    AnswerBody,
    ApproveBody,
    CancelBody,
    CompleteBody,
    Counts,
    CountsQuery,
    DenyBody,
    EventsQuery,
    EventView,
    ForkBody,
    GoOnBody,
    LimitQuery,
    ListedRun,
    PauseBody,
    RunOrigin,
    RunOutcome,
    RunSetup,
    RunsQuery,
    RunView,
    SayBody,
    SessionEventsQuery,
    SessionView,
    StartedRun,
    StartRun,
    SteerBody,
    TakenMessage,
    Waiting,
    WaitQuery,
    WhoAsks,
    moment,
)
from .problems import HttpProblem, path_of
from .sign_in import show_sign_in, sign_in
from .sse import resumable
from .waiting_calls import waiting_calls

PREFIX = "/perdure"
"""The path prefix of this API."""
ORIGIN_NAME = "gateway"
"""The `PerdureOrigin` of its runs."""


async def who_asks(call: HttpCall) -> WhoAsks:
    """The client's name, tenant and roles."""
    who = call.identity
    is_known = bool(call.gateway.authenticators)
    return WhoAsks(name=who.name, tenant=who.tenant, roles=sorted(who.roles), is_known=is_known)


async def list_agents(call: HttpCall) -> list[AgentView]:
    """The agents that this gateway offers."""
    return [_agent_view(each) for each in call.gateway.offers.values()]


def _agent_view(offer: OfferedAgent) -> AgentView:
    inputs = [
        each.model_dump(mode="json", by_alias=True, exclude_none=True)
        for each in offer.agent.inputs or ()
    ]
    return AgentView(name=offer.name, description=offer.agent.description, inputs=inputs)


async def start(call: HttpCall[Nothing, StartRun]) -> Response:
    """Start a run. Requests of one `Idempotency-Key` are one run."""
    key = call.request.headers.get("idempotency-key", "")
    run, is_new = await call.gateway.start(
        call.identity,
        call.gateway.offer(call.body.agent),
        call.body.inputs,
        key=key,
        id=call.body.id or "",
        options=RunOptions(stream=True),
        origin=ORIGIN_NAME,
    )
    started = StartedRun(id=run.id, is_new=is_new)
    return JSONResponse(
        started.model_dump(by_alias=True),
        status_code=201,
        headers={"Location": f"{PREFIX}/runs/{path_of(run.id)}"},
    )


async def summary_of(run: WorkflowExecution) -> JsonObject:
    """Return the fields of a `ListedRun`."""
    attributes, shown = run.typed_search_attributes, await shown_of(run)
    return {
        "id": run.id,
        "agent": attributes.get(AGENT),
        "title": shown.title,
        "status": listed_status(run),
        "started": moment(shown.started),
        "closed": moment(run.close_time),
        "tenant": attributes.get(TENANT),
        "session": attributes.get(SESSION),
        "origin": attributes.get(ORIGIN),
        "cost_usd": attributes.get(COST),
    }


async def list_runs(call: HttpCall[RunsQuery]) -> list[ListedRun]:
    """The newest runs."""
    query = call.query
    conditions = [status_condition(query.status)] if query.status else []
    equal = ((AGENT, query.agent), (SESSION, query.session))
    conditions += since(query.since)
    conditions += [f"{key.name} = {quote(value)}" for key, value in equal if value is not None]
    found = await call.gateway.list(call.identity, conditions, limit=query.limit)
    return [ListedRun(**await summary_of(each)) for each in found]


def since(time: datetime | None) -> list[str]:
    """Return the condition for runs that began at the time or later."""
    return [f"StartTime >= {quote(time.isoformat())}"] if time else []


async def count_runs(call: HttpCall[CountsQuery]) -> Counts:
    """The number of runs of each status."""
    begun = since(call.query.since)

    async def of(*conditions: str, group: str = "") -> WorkflowExecutionCount:
        return await call.gateway.count(call.identity, [*begun, *conditions], group)

    ended, waiting, held = await asyncio.gather(
        of(group="ExecutionStatus"), *(of(status_condition(each)) for each in ("waiting", "held"))
    )
    counts: dict[str, int] = {
        status_named(str(each.group_values[0])): each.count for each in ended.groups
    }
    counts["running"] = counts.get("running", 0) - waiting.count - held.count
    named = {name: counts.get(name, 0) for name in Counts.model_fields}
    return Counts(**named | {"waiting": waiting.count, "held": held.count})


async def find(call: HttpCall[Any, Any]) -> FoundRun:
    """Return the run named by the path. Raises `HttpProblem`."""
    return await call.gateway.run(call.identity, call.path["id"])


async def show_run(call: HttpCall) -> RunView:
    """A run and its status."""
    found = await find(call)
    return RunView(**await summary_of(found.described), state=await found.handle.status())


async def show_result(call: HttpCall[WaitQuery]) -> RunOutcome:
    """The result of a run, for which the request waits up to `wait` seconds."""
    found = await find(call)
    try:
        async with asyncio.timeout(None if found.has_ended else call.query.wait):
            result = await found.handle.result()
    except TimeoutError:
        return RunOutcome(id=found.id, has_ended=False)
    except RunError as error:
        return RunOutcome(
            id=found.id, has_ended=True, error={"kind": error.kind, "message": str(error)}
        )
    return RunOutcome(
        id=found.id,
        has_ended=True,
        output=result.output,
        iterations=result.iterations,
        usage=result.usage,
        cost_usd=result.cost_usd,
        is_incomplete=result.is_incomplete,
        cut_short=result.cut_short,
    )


async def show_messages(call: HttpCall) -> list[Message]:
    """The conversation of a run."""
    return await (await find(call)).handle.messages()


async def show_trace(call: HttpCall) -> Response:
    """The trace of a run, in OTLP's JSON form."""
    from ..trace.otlp import to_otlp_json  # OpenTelemetry, which only this function needs

    return JSONResponse(to_otlp_json(await (await find(call)).handle.trace()))


async def show_events(call: HttpCall[EventsQuery]) -> Response:
    """The events of a run: a list, or a stream for clients that accept server-sent events."""
    found = await find(call)
    after = call.request.headers.get("last-event-id") or call.query.after
    if not accepts_stream(call.request):
        past = await found.handle.events(after, children=call.query.children)
        return JSONResponse([as_changes(each) for each in past])
    events = call.gateway.stream(found, after, children=call.query.children)
    return resumable(events, after, _ends)


def _ends(event: RunEvent) -> bool:
    return event.type in TERMINAL_EVENTS and event.run_id is None


def accepts_stream(request: Request) -> bool:
    """Return whether the client accepts server-sent events."""
    return "text/event-stream" in request.headers.get("accept", "")


async def steer(call: HttpCall[Nothing, SteerBody]) -> Nothing:
    """Send a message to a run.

    Raises `EncryptionError` without the run's key: its history would have the text in the clear.
    """
    text, id, found = call.body.text, call.body.message_id or "", await find_open(call)
    await found.described.memo()  # raises for a missing key
    await found.handle.steer(text, by=call.identity.name, message_id=id)
    return Nothing()


async def find_open(call: HttpCall[Any, Any]) -> FoundRun:
    """Return the run named by the path. Raises `HttpProblem` for one that has ended."""
    found = await find(call)
    if found.has_ended:
        raise HttpProblem(409, "ended", f"The run {found.id!r} has ended")
    return found


async def cancel(call: HttpCall[Nothing, CancelBody]) -> Nothing:
    """Cancel a run; one that has ended stays as it is."""
    await (await find(call)).handle.cancel(call.body.reason)
    return Nothing()


async def pause(call: HttpCall[Nothing, PauseBody]) -> Nothing:
    """Pause a run before its next model or tool call, until it is resumed."""
    await (await find_open(call)).handle.pause(call.body.reason, by=call.identity.name)
    return Nothing()


async def go_on(call: HttpCall[Nothing, GoOnBody]) -> Nothing:
    """Resume a held or paused run, with other limits or another model if any are given."""
    handle, body = (await find_open(call)).handle, call.body
    await handle.go_on(options=body.options, model=body.model, by=call.identity.name)
    return Nothing()


async def show_setup(call: HttpCall) -> RunSetup:
    """The model, options and inputs of a run when it started, and its relations."""
    found, gateway = await find(call), call.gateway
    input = await read_input(gateway.client, found.id, found.described.run_id)
    caller = input.lineage.trace if input.lineage else ""
    ids = TraceIds.of(gateway.client.namespace, found.id, found.first_run_id, caller)
    trace, viewer = f"{ids.trace_id:032x}", os.environ.get("PERDURE_TRACE_URL")
    fork, model = await fork_origin(found.described), input.agent.model
    return RunSetup(
        model=model and model.name,
        options=input.options.model_dump(mode="json", include=set(CHANGED_BY_GO_ON)),
        inputs=input.inputs,
        fork_of=fork and RunOrigin(run=fork.run, at=fork.at),
        forks=[each async for each in forks_of(gateway.client, found.id, limit=20)],
        called_by=input.lineage and input.lineage.parent,
        trace_id=trace,
        trace_url=viewer and viewer.replace("{trace_id}", trace),
        temporal_url=gateway.ui_url(found.id) if gateway.ui_url else None,
    )


async def approve(call: HttpCall[Nothing, ApproveBody]) -> Nothing:
    """Approve a waiting tool call."""
    body, found = call.body, await find(call)
    await found.handle.approve(
        body.call_id, digest=body.digest, arguments=body.arguments, by=call.identity.name
    )
    return Nothing()


async def deny(call: HttpCall[Nothing, DenyBody]) -> Nothing:
    """Deny a waiting tool call, or decline a question."""
    body, found = call.body, await find(call)
    await found.handle.deny(body.call_id, body.reason, digest=body.digest, by=call.identity.name)
    return Nothing()


async def answer(call: HttpCall[Nothing, AnswerBody]) -> Nothing:
    """Answer a question of a run's model."""
    body, found = call.body, await find(call)
    await found.handle.answer(body.call_id, body.text, digest=body.digest, by=call.identity.name)
    return Nothing()


async def fork(call: HttpCall[Nothing, ForkBody]) -> StartedRun:
    """Start a new run with the conversation of this one, as it stood before an iteration. Equal
    requests of one `Idempotency-Key` are one fork.
    """
    key = call.request.headers.get("idempotency-key", "")
    id, is_new = await call.gateway.fork(
        call.identity, await find(call), key=key, **call.body.model_dump()
    )
    return StartedRun(id=id, is_new=is_new)


async def list_approvals(call: HttpCall[LimitQuery]) -> list[Waiting]:
    """The calls that wait for a person, of the newest runs that wait."""
    return await waiting_calls(call.gateway, call.identity, call.query.limit)


async def complete(call: HttpCall[Nothing, CompleteBody]) -> Nothing:
    """Finish a tool call that waits for another system. The token names the call, and is the only
    proof needed.
    """
    token, identity, body = call.path["token"], call.identity, call.body
    if identity.tenant is not None:
        with suppress(ValueError):
            await call.gateway.run(
                identity, read_token(token).run_id
            )  # belongs to another tenant: not found
    by = None if identity is ANYBODY else identity.name
    await complete_call(call.gateway.client, token, body.result, error=body.error, by=by)
    return Nothing()


async def say(call: HttpCall[Nothing, SayBody]) -> TakenMessage:
    """Send a message to a session; the first message begins the session."""
    body, messages = call.body, None
    offer = call.gateway.offer(body.agent) if body.agent else None
    if body.replaces:
        found = await call.gateway.run(call.identity, body.replaces)
        before = await fork_of(Chain(call.gateway.client, found.id, found.first_run_id), 1)
        opened = await read_input(call.gateway.client, found.id, found.first_run_id)
        count = len(opened.added_messages) + (opened.session.unread if opened.session else 0)
        offer = OfferedAgent(found.id, before.agent, Path())
        messages = before.messages[: -max(count, 1)]
    session = await call.gateway.session(call.identity, call.path["id"], offer, messages)
    run = await session.send(
        body.text,
        parts=body.parts,
        while_busy=body.while_busy,
        message_id=body.message_id,
        by=call.identity.name,
    )
    return TakenMessage(session=session.id, run=run.id)


async def list_sessions(call: HttpCall[LimitQuery]) -> list[SessionView]:
    """The newest sessions."""
    found = await call.gateway.list(
        call.identity, limit=call.query.limit, workflow=SESSION_WORKFLOW
    )
    return [
        SessionView(
            id=each.id,
            agent=each.typed_search_attributes.get(AGENT),
            started=moment((await shown_of(each)).started),
            closed=moment(each.close_time),
            tenant=each.typed_search_attributes.get(TENANT),
        )
        for each in found
    ]


async def show_session(call: HttpCall) -> SessionStatus:
    """The status of a session."""
    return await (await call.gateway.session(call.identity, call.path["id"])).status()


async def show_session_messages(call: HttpCall) -> list[Message]:
    """The conversation of a session."""
    return await (await call.gateway.session(call.identity, call.path["id"])).messages()


async def show_session_events(call: HttpCall[SessionEventsQuery]) -> Response:
    """A stream of the events of a session's runs, as server-sent events, until the session ends.

    Raises `HttpProblem` for a position in a turn that the session does not have yet.
    """
    session = await call.gateway.session(call.identity, call.path["id"])
    after = call.request.headers.get("last-event-id") or call.query.after
    turn = parse_position(after)[0]
    if turn > (last := (await session.status()).turn if turn > 1 else 1) + 1:
        raise HttpProblem(
            404, "not_found", f"The position {after!r} is in turn {turn}: the last one is {last}"
        )
    events = call.gateway.ending.waits.until_cut(
        cast(AsyncGenerator[RunEvent, None], session.stream(after))
    )
    return resumable(events, after, lambda event: False)


async def close_session(call: HttpCall) -> Nothing:
    """Close a session: it takes no more messages, and ends after its open and queued turns."""
    await (await call.gateway.session(call.identity, call.path["id"])).close()
    return Nothing()


async def cancel_session(call: HttpCall[Nothing, CancelBody]) -> Nothing:
    """Cancel the open run, and end the session."""
    await (await call.gateway.session(call.identity, call.path["id"])).cancel(call.body.reason)
    return Nothing()


_RUN, _SESSION = "/runs/{id:path}", "/sessions/{id:path}"


def _operation(method: str, path: str, handle: Any, **more: Any) -> Endpoint:
    return Endpoint(method, PREFIX + path, handle, **more)


_for_operators = partial(_operation, is_for_operators=True)


OPERATIONS = (
    _operation("GET", "/me", who_asks),
    _operation("GET", "/agents", list_agents),
    _operation("POST", "/runs", start, answer=StartedRun, status=201),
    _operation("GET", "/runs", list_runs, is_shared=True),
    _operation("GET", "/counts", count_runs, is_shared=True),
    _operation("GET", f"{_RUN}/result", show_result, is_shared=True),
    _operation("GET", f"{_RUN}/events", show_events, answer=list[EventView], streams=True),
    _operation("GET", f"{_RUN}/messages", show_messages),
    _operation("GET", f"{_RUN}/calls", executions.list_calls, is_shared=True),
    _operation("GET", f"{_RUN}/trace", show_trace),
    _operation("POST", f"{_RUN}/steer", steer),
    _operation("POST", f"{_RUN}/cancel", cancel),
    _operation("POST", f"{_RUN}/pause", pause),
    _operation("POST", f"{_RUN}/go-on", go_on),
    _operation("GET", f"{_RUN}/setup", show_setup, is_shared=True),
    _operation("POST", f"{_RUN}/approve", approve),
    _operation("POST", f"{_RUN}/deny", deny),
    _operation("POST", f"{_RUN}/answer", answer),
    _operation("POST", f"{_RUN}/fork", fork, status=201),
    _operation("GET", _RUN, show_run, is_shared=True),
    _operation("GET", "/approvals", list_approvals, is_shared=True),
    _operation("POST", "/calls/{token}", complete, is_open=True),
    _operation("GET", "/sign-in", show_sign_in, is_open=True),
    _operation("POST", "/sign-in", sign_in, is_open=True),
    _operation("GET", "/push", push.show_push_key),
    _operation("POST", "/push", push.subscribe),
    _operation("DELETE", "/push", push.unsubscribe),
    _for_operators("GET", "/doctor", operate.examine, is_shared=True),
    _for_operators("GET", "/pauses", operate.list_pauses, is_shared=True),
    _for_operators("POST", "/pauses", operate.pause_many, status=201),
    _for_operators("POST", "/pauses/{id}/release", operate.release),
    _for_operators("GET", "/schedules", operate.schedules, is_shared=True),
    _for_operators("POST", "/schedules/{name}/{action}", operate.change_schedule),
    _operation("GET", "/sessions", list_sessions, is_shared=True),
    _operation("POST", f"{_SESSION}/messages", say),
    _operation("GET", f"{_SESSION}/messages", show_session_messages),
    _operation("GET", f"{_SESSION}/events", show_session_events, streams=True),
    _operation("POST", f"{_SESSION}/close", close_session),
    _operation("POST", f"{_SESSION}/cancel", cancel_session),
    _operation("GET", _SESSION, show_session),
)


class OwnDialect:
    """perdure's own API."""

    name = "perdure"

    def routes(self, gateway: Gateway) -> list[BaseRoute]:
        """Return the routes of the dialect."""

        async def describe(request: Request, identity: Identity) -> Response:
            return JSONResponse(openapi_document(OPERATIONS, title="perdure"))

        document = known_route(f"{PREFIX}/openapi.json", "GET", gateway, describe)
        return [document, *(route_of(each, gateway) for each in OPERATIONS)]
