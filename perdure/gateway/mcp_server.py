"""Serves agents as tools of an MCP server: calls outlive their connection, as tasks for clients
that support them.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

from cachetools import TTLCache
from mcp import types
from mcp.server import Server
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.mcpserver import require_client_extension
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from pydantic import BaseModel, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount

from .._version import __version__
from ..errors import RunError
from ..events import RunEvent
from ..json_types import JsonObject, JsonView
from ..options import RunOptions
from ..protocol.search_attributes import shown_of
from ..schema import object_schema
from ..text import function_name, one_line
from ..tool_calls import PendingApproval
from .chats import PersonDecision
from .ending import GatewayEnds
from .gateway import FoundRun, Gateway, OfferedAgent, digest_of
from .held import held_text
from .identity import Identity
from .operations import JsonRpcEntrance, json_rpc_refusal, problem_of_request
from .own_types import moment
from .problems import HttpProblem
from .words import CUT_SHORT, decision_schema, output_text, with_approvers

ORIGIN_NAME = "gateway:mcp"
"""The `PerdureOrigin` of runs started here."""
TASKS = "io.modelcontextprotocol/tasks"
"""The extension for calls as tasks."""
MODERN = "2026-07-28"
"""The first version whose requests carry the client's capabilities."""
PROGRESS_SECONDS = 5.0
"""Minimum seconds between two reports of progress."""
POLL_MILLISECONDS = 1000
"""The client's polling interval for a task."""
EQUAL_SECONDS = 900.0
"""A call without an id joins the open run of an equal call of the last this many seconds."""
MAX_EQUAL = 10_000
TOOL_USE = "claudecode/toolUseId"
"""The key in `_meta` under which Claude Code sends a call's id."""
RESULT = "result"
"""The name of the tool that waits for a run."""


class _TaskParams(types.RequestParams):
    task_id: str = Field(alias="taskId")


class _UpdateParams(_TaskParams):
    input_responses: JsonObject = Field(alias="inputResponses", default={})


class _CancelParams(_TaskParams):
    reason: str = ""


class _ResultParams(BaseModel):
    run: str
    wait: float = Field(default=math.inf, allow_inf_nan=False)


Context = ServerRequestContext[Any, Any]


class McpDialect:
    """`/mcp`."""

    name = "mcp"

    def __init__(self) -> None:
        self._server: Server | None = None

    def routes(self, gateway: Gateway) -> list[BaseRoute]:
        """Return the routes of the dialect."""
        server = _AgentServer(gateway).server()
        # The gateway itself checks hosts and origins of every request.
        security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        app = server.streamable_http_app(
            streamable_http_path="/", stateless_http=True, transport_security=security
        )
        self._server = server
        return [Mount("/mcp", JsonRpcEntrance(app, gateway))]

    def refusal(self, problem: HttpProblem) -> Response:
        """Return the response to a request that is refused unread."""
        return json_rpc_refusal(problem)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Serve sessions while the block runs."""
        assert self._server is not None
        async with self._server.session_manager.run():
            yield


class _AgentServer:
    """The tools of a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._offers = {function_name(name): offer for name, offer in gateway.offers.items()}
        self._last: TTLCache[str, str] = TTLCache(MAX_EQUAL, EQUAL_SECONDS)
        """The last run of equal calls: a client that has given up on a call repeats it."""

    def server(self) -> Server:
        """Return the server that offers them."""
        server: Server = Server(
            "perdure",
            version=__version__,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        server.extensions = {TASKS: {}}
        server.add_request_handler("tasks/get", _TaskParams, self._get_task)
        server.add_request_handler("tasks/update", _UpdateParams, self._update_task)
        server.add_request_handler("tasks/cancel", _CancelParams, self._cancel_task)
        return server

    async def _list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        tools = [_tool(name, offer) for name, offer in self._offers.items()]
        return types.ListToolsResult(tools=[*tools, RESULT_TOOL])

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        identity = _identity_of(ctx)
        try:
            if params.name == RESULT and RESULT not in self._offers:
                return await self._wait_for(ctx, identity, params.arguments or {})
            if params.name not in self._offers:
                expected = ", ".join([*self._offers, RESULT])
                raise MCPError(
                    types.INVALID_PARAMS,
                    f"There is no tool {params.name!r}: expected one of {expected}",
                )
            found = await self._start(ctx, identity, self._offers[params.name], params)
        except MCPError:
            raise
        except Exception as error:
            return text_result(str(problem_of_request(error, _request_of(ctx))), is_error=True)
        if knows_tasks(ctx):
            return {"resultType": "task", **await _task(found)}
        return await self._answer(ctx, found, self._gateway.patience_seconds)

    async def _start(
        self,
        ctx: Context,
        identity: Identity,
        offer: OfferedAgent,
        params: types.CallToolRequestParams,
    ) -> FoundRun:
        inputs = params.arguments or {}
        tool_use = (ctx.meta or {}).get(TOOL_USE)
        equal = digest_of([identity.tenant, identity.name, offer.name, inputs])
        if not tool_use and (last := self._last.get(equal)):
            found = await self._gateway.run(identity, last)
            if not found.has_ended:
                return found
        run, _ = await self._gateway.start(
            identity,
            offer,
            inputs,
            key=f"mcp:{tool_use}" if tool_use else "",
            options=RunOptions(stream=True),
            origin=ORIGIN_NAME,
        )
        self._last[equal] = run.id
        return await self._gateway.run(identity, run.id)

    async def _wait_for(
        self, ctx: Context, identity: Identity, arguments: JsonView
    ) -> types.CallToolResult:
        try:
            asked = _ResultParams.model_validate(arguments, strict=True)
        except ValidationError:
            return text_result(
                "expected `run`, a text, and `wait`, a finite number of seconds", is_error=True
            )
        found = await self._gateway.run(identity, asked.run)
        return await self._answer(ctx, found, min(asked.wait, self._gateway.patience_seconds))

    async def _answer(self, ctx: Context, found: FoundRun, seconds: float) -> types.CallToolResult:
        """Return the run's result or, after that many seconds, the way to get it; report progress
        meanwhile.
        """
        tool_heartbeat = asyncio.create_task(self._report(ctx, found))
        try:
            async with self._gateway.ending.waits.limit(), asyncio.timeout(seconds):
                return await _result_of(found)
        except GatewayEnds:
            status = None  # The last outputs of many requests at once must not wait for a worker.
        except TimeoutError:
            status = await found.handle.status()
        finally:
            tool_heartbeat.cancel()
            await asyncio.wait([tool_heartbeat])
        waiting = (
            [with_approvers(_call_text(each), each) for each in status.pending_approvals]
            if status
            else []
        )
        told: JsonObject = {
            "run": found.id,
            "status": "waiting for a person" if waiting else "working",
            "next": f"call the tool {RESULT!r} with this run",
        }
        if status and status.held:
            told |= {"status": "held", "why": held_text(found.id, status.held[0])}
        return text_result(json.dumps({**told, "waiting": waiting} if waiting else told))

    async def _report(self, ctx: Context, found: FoundRun) -> None:
        number, last = 0, -math.inf
        clock = asyncio.get_running_loop().time
        async with aclosing(self._gateway.stream(found)) as events:
            async for event in events:
                text = progress_of(event)
                if text and (event.type != "token" or clock() - last > PROGRESS_SECONDS):
                    number, last = number + 1, clock()
                    await ctx.session.report_progress(number, None, text)

    async def _get_task(self, ctx: Context, params: _TaskParams) -> HandlerResult:
        found = await self._task(ctx, params.task_id)
        return {"resultType": "complete", **await _task_now(found)}

    async def _update_task(self, ctx: Context, params: _UpdateParams) -> HandlerResult:
        identity = _identity_of(ctx)
        found = await self._task(ctx, params.task_id)
        pending = {each.digest: each for each in (await found.handle.status()).pending_approvals}
        answered = {key: each for key, each in params.input_responses.items() if key in pending}
        try:
            for key, answer in answered.items():
                given = answer if isinstance(answer, Mapping) else {}
                if decision := _decision_in(pending[key], given):
                    await decision.send(found, pending[key], by=identity.name)
        except Exception as error:
            raise _refusal(ctx, error) from error
        return {"resultType": "complete"}

    async def _cancel_task(self, ctx: Context, params: _CancelParams) -> HandlerResult:
        found = await self._task(ctx, params.task_id)
        if self._gateway.cancels_tasks or params.reason:
            await found.handle.cancel(params.reason)
        return {"resultType": "complete"}

    async def _task(self, ctx: Context, id: str) -> FoundRun:
        _require_tasks(ctx, id)
        try:
            return await self._gateway.run(_identity_of(ctx), id)
        except Exception as error:
            raise _refusal(ctx, error) from error


def _request_of(ctx: Context) -> Request:
    assert isinstance(ctx.request, Request)
    return ctx.request


def _identity_of(ctx: Context) -> Identity:
    identity: Identity = _request_of(ctx).scope["auth"]
    return identity


def _refusal(ctx: Context, error: Exception) -> MCPError:
    problem = problem_of_request(error, _request_of(ctx))
    return MCPError(types.INVALID_PARAMS, str(problem), {"kind": problem.kind})


def progress_of(event: RunEvent) -> str:
    """Return the progress text of an event; "" for none."""
    match event.type:
        case "llm_start" | "token":
            return "the model works"
        case "tool_call_start":
            return f"{event.data['name']} is called"
        case "permission_requested":
            return f"{event.data['name']} waits for a person"
    return ""


def _tool(name: str, offer: OfferedAgent) -> types.Tool:
    schema = object_schema(offer.agent.inputs or [])
    return types.Tool(name=name, description=offer.description, input_schema=schema)


RESULT_TOOL = types.Tool(
    name=RESULT,
    description=(
        "Waits for the result of an agent that another tool has started and that was not "
        "ready in time."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "run": {"type": "string", "description": "The run that the other tool has named."},
            "wait": {"type": "number", "description": "Seconds to wait."},
        },
        "required": ["run"],
    },
)


def _require_tasks(ctx: Context, id: str) -> None:
    """Raise `MCPError` for a task request from a client that has not declared tasks, or whose
    header names another task.

    The SDK compares the header `Mcp-Name` with the body only for its known methods, which exclude
    those of tasks.
    """
    if ctx.protocol_version < MODERN:
        raise MCPError(
            types.METHOD_NOT_FOUND,
            f"Tasks are of the protocol {MODERN}: expected a client that speaks it",
        )
    require_client_extension(ctx, TASKS)
    named = decode_header_value(_request_of(ctx).headers.get(MCP_NAME_HEADER))
    if named != id:
        raise MCPError(
            types.HEADER_MISMATCH,
            f"The header {MCP_NAME_HEADER} names {named!r}: expected the body's taskId, {id!r}",
        )


def knows_tasks(ctx: Context) -> bool:
    """Return whether the client of this request accepts a task as an answer."""
    if ctx.protocol_version < MODERN:
        return False
    capabilities = (ctx.meta or {}).get("io.modelcontextprotocol/clientCapabilities") or {}
    return isinstance(capabilities, Mapping) and TASKS in (capabilities.get("extensions") or {})


def text_result(text: str, *, is_error: bool = False) -> types.CallToolResult:
    """Return a result with this text."""
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)


async def _result_of(found: FoundRun) -> types.CallToolResult:
    try:
        result = await found.handle.result()
    except RunError as error:
        return text_result(f"{error.kind}: {error}", is_error=True)
    told = text_result(output_text(result.output))
    if result.cut_short:
        told.content.append(types.TextContent(text=CUT_SHORT[result.cut_short]))
    if isinstance(result.output, str):
        return told
    return told.model_copy(update={"structured_content": {"output": result.output}})


async def _task(found: FoundRun, status: str = "working") -> JsonObject:
    described = found.described
    return {
        "taskId": found.id,
        "status": status,
        "createdAt": moment((await shown_of(described)).started),
        "lastUpdatedAt": moment(
            described.close_time or described.execution_time or described.start_time
        ),
        "ttlMs": None,
        "pollIntervalMs": POLL_MILLISECONDS,
    }


async def _task_now(found: FoundRun) -> JsonObject:
    if found.has_ended:
        return await _ended_task(found)
    status = await found.handle.status()
    if not status.pending_approvals:
        return await _task(found)
    requests = {each.digest: _request_for(each) for each in status.pending_approvals}
    return {**await _task(found, "input_required"), "inputRequests": requests}


async def _ended_task(found: FoundRun) -> JsonObject:
    if found.described.status is not None and found.described.status.name == "CANCELED":
        return await _task(found, "cancelled")
    result = (await _result_of(found)).model_dump(mode="json", by_alias=True, exclude_none=True)
    return {**await _task(found, "completed"), "result": {**result, "resultType": "complete"}}


def _call_text(pending: PendingApproval) -> str:
    if pending.question:
        return pending.question
    return f"{pending.name} {one_line(json.dumps(pending.arguments, ensure_ascii=False), 2000)}"


def _request_for(pending: PendingApproval) -> JsonObject:
    """Return the form that asks a person."""
    text = pending.question or f"Let the agent call {_call_text(pending)}?"
    return {
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": with_approvers(text, pending),
            "requestedSchema": decision_schema(pending),
        },
    }


def _decision_in(pending: PendingApproval, answer: JsonView) -> PersonDecision | None:
    """Return a person's decision; None for an answer that leaves the call waiting."""
    action, content = answer.get("action"), answer.get("content") or {}
    if action == "decline" or (action == "accept" and content.get("approved") is False):
        return PersonDecision(False, str(content.get("reason") or "declined"))
    if action == "accept" and pending.question and isinstance(content.get("answer"), str):
        return PersonDecision(True, answer=content["answer"])
    if action == "accept" and content.get("approved") is True:
        return PersonDecision(True)
    return None
