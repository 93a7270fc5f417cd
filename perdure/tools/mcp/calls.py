"""Lists the tools of an MCP server and calls one of them: every outcome becomes a tool result."""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import mcp
from mcp import types
from pydantic import ValidationError

from ...messages import AudioPart, FilePart, ImagePart, Part, TextPart, ToolResult
from ...redaction import get_logger, redact
from ...text import count_of, fault_text, one_line, valid_json, valid_text
from ..http import Fault
from ..kind import KindCall, ToolOfferError
from .connection import McpConnection, NotConnected, Pool
from .declaration import MAX_PAGES, Server
from .elicitation import Elicitation, UnfitAnswer
from .http import SESSION_OVER, fault_of, forgets_session
from .offering import MAX_TOOLS

TOOL_ERROR = "mcp_tool_error"
"""The kind of an error that the tool itself has reported."""

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Image types that models accept: with any other, the provider would refuse the whole
conversation."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_MAX_MEDIA_TYPE = 200


def result_of(answer: types.CallToolResult, name: str) -> ToolResult:
    """Return the result for an answer; uses structured content if the answer has no text."""
    parts = [part for block in answer.content for part in _parts(block)]
    if answer.structured_content is not None and not any(
        isinstance(block, types.TextContent) for block in answer.content
    ):
        text = json.dumps(
            valid_json(answer.structured_content), ensure_ascii=False, separators=(",", ":")
        )
        parts.insert(0, TextPart(value=text))
    if not answer.is_error:
        return ToolResult(parts=parts or [TextPart(value="")])
    said = "".join([part.value for part in parts if isinstance(part, TextPart)])
    text = f"Error: Tool '{name}' failed: {said or 'its MCP server does not say why'}"
    others = [part for part in parts if not isinstance(part, TextPart)]
    return ToolResult(
        parts=[TextPart(value=text), *others],
        status="error",
        error_kind=TOOL_ERROR,
        error_message=text,
    )


def _parts(block: types.ContentBlock) -> Iterator[Part]:
    match block:
        case types.TextContent():
            yield TextPart(value=valid_text(block.text))
        case types.ImageContent() | types.AudioContent():
            yield _media(block.data, block.mime_type, block.type)
        case types.ResourceLink():
            yield TextPart(value=_link(block))
        case types.EmbeddedResource(resource=types.TextResourceContents() as contents):
            yield TextPart(value=valid_text(f"[{one_line(contents.uri, 500)}]\n{contents.text}"))
        case types.EmbeddedResource(resource=types.BlobResourceContents() as contents):
            yield _media(
                contents.blob,
                contents.mime_type or "application/octet-stream",
                one_line(contents.uri, 500),
            )


def _media(data: str, media_type: str, what: str) -> Part:
    kind = media_type.partition(";")[0].strip().lower()
    if (
        len(media_type) > _MAX_MEDIA_TYPE
        or not kind
        or len(data) % 4
        or not _BASE64.fullmatch(data)
    ):
        return TextPart(value=f"[{what} left out: it is not base64 of a known media type]")
    if kind in _IMAGES:
        return ImagePart.model_validate({"source": data, "mediaType": kind})
    if kind.startswith("audio/"):
        return AudioPart.model_validate({"source": data, "mediaType": kind})
    return FilePart.model_validate({"source": data, "mediaType": kind})


def _link(link: types.ResourceLink) -> str:
    """Return a link as text: the model can read its target with another tool, if the server has
    one.
    """
    about = ", ".join(
        filter(None, [link.mime_type, f"{link.size:,} bytes" if link.size is not None else ""])
    )
    described = f": {link.description}" if link.description else ""
    return valid_text(
        f"[Resource {link.title or link.name}, "
        f"{link.uri}{f' ({about})' if about else ''}{described}]"
    )


UNREACHABLE = "mcp_unreachable"
LOST = "mcp_connection_lost"
REFUSED = "mcp_error"
_NOT_BEGUN = frozenset(
    {
        types.HEADER_MISMATCH,
        types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        types.UNSUPPORTED_PROTOCOL_VERSION,
    }
)
"""Errors with which a server reports that it has not called the tool.

Any other error may come from the tool: servers pass on a tool's errors, and tools those of other
servers.
"""
_AGAIN_SECONDS = 0.25
CANCEL_SECONDS = 2.0
"""Seconds that a server has to accept a task's cancellation."""
_EVERY_PAGE = f"its next cursor is empty, leads back, or there are more than {MAX_PAGES} pages"
_log = get_logger("perdure.tools.mcp")


@dataclass(frozen=True)
class Target:
    """A server, with its name and address in messages, and the time-out for connecting."""

    server: Server
    title: str
    seconds: float

    def __str__(self) -> str:
        return f"MCP server {self.title!r}"


async def list_tools(pool: Pool, target: Target) -> list[types.Tool]:
    """Return all tools of the server, from all pages. Raises ToolOfferError, with the remedy."""
    deadline = time.monotonic() + target.seconds
    try:
        try:
            return await _list_once(pool, target, deadline)
        except mcp.MCPError as error:
            if not _is_lost(error):
                raise
        return await _list_once(pool, target, deadline)
    except TimeoutError:
        why = f"it does not list its tools within {count_of(target.seconds, 'second')}"
    except NotConnected as error:
        why = str(error)
    except mcp.MCPError as error:
        fault = fault_of(error)
        why = fault.text if fault else f"it does not list its tools: {one_line(error.message, 500)}"
    except (ValidationError, RuntimeError) as error:
        why = f"its answer is not a list of tools: {_misfit(error)}"
    what = "connection.endpoint" if target.server.endpoint else "options.command"
    advice = f"check {what}, and that the server runs; options.discoveryTimeout gives it more time"
    raise ToolOfferError(
        redact(f"The tools of {target} ({target.server}) can't be found out: {why} ({advice})")
    )


async def _list_once(pool: Pool, target: Target, deadline: float) -> list[types.Tool]:
    connection = pool.connection(target.server, target.title)
    with connection.use():
        client = await connection.client(target.seconds)
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await _pages(client, target)
        except mcp.MCPError as error:
            if _is_lost(error):
                connection.retire()
            raise


async def _pages(client: mcp.Client, target: Target) -> list[types.Tool]:
    tools: list[types.Tool] = []
    cursors: list[str] = []
    page = await client.list_tools()
    while True:
        tools += page.tools
        if len(tools) > MAX_TOOLS:
            raise RuntimeError(f"it has more than {MAX_TOOLS} tools")
        if page.next_cursor is None:
            return tools
        if not page.next_cursor or page.next_cursor in cursors or len(cursors) >= MAX_PAGES:
            _log.warning(
                "The list of %s ends after %s: %s",
                target,
                count_of(len(cursors) + 1, "page"),
                _EVERY_PAGE,
            )
            return tools
        cursors.append(page.next_cursor)
        page = await client.list_tools(cursor=page.next_cursor)


async def call_tool(pool: Pool, target: Target, call: KindCall) -> ToolResult:
    """Return the result of the call. After a broken connection, a call that did no harm is retried
    once on a new one.

    Raises CancelledError when it is cancelled, and notifies the server.
    """
    policy = call.tool.perdure.idempotent if call.tool.perdure else None
    is_idempotent = bool(call.details.get("idempotent")) if policy is None else policy
    ended = await _try(pool, target, call)
    if isinstance(ended, Fault) and ended.passing and (is_idempotent or not ended.outcome_unknown):
        _log.warning("The call of %r is tried again: %s: %s", call.name, target, ended.text)
        ended = await _try(pool, target, call)
    if isinstance(ended, ToolResult):
        return ended
    text = f"{target}: {ended.text}{'' if ended.outcome_unknown else '. The tool was not executed'}"
    kind = f"http_{ended.status}" if ended.status else LOST
    return _failure(call, text, kind, outcome_unknown=ended.outcome_unknown)


async def _try(pool: Pool, target: Target, call: KindCall) -> ToolResult | Fault:
    connection = pool.connection(target.server, target.title)
    with connection.use():
        try:
            return await _answer(await connection.client(target.seconds), target, call)
        except NotConnected as error:
            kind = f"http_{error.status}" if error.status else UNREACHABLE
            return _failure(
                call, f"{target} is not connected: {error}. The tool was not executed", kind
            )
        except mcp.MCPError as error:
            if fault := await _loss(connection, error):
                return fault
            text = f"{target} answered with an error: {one_line(error.message, 2000)}"
            return _failure(call, text, REFUSED, outcome_unknown=error.code not in _NOT_BEGUN)


async def _answer(client: mcp.Client, target: Target, call: KindCall) -> ToolResult:
    answered = call.context.answered
    asking = Elicitation()
    if answered is not None:
        try:
            asking = Elicitation.after(answered)
        except UnfitAnswer as misfit:
            return _question(target, call, Elicitation.model_validate(answered.state), f"{misfit}.")
        if asking.left:
            return _question(target, call, asking)
    try:
        answer = await _send(client, target, call, asking)
    except (ValidationError, RuntimeError) as error:
        text = f"{target} answered against the protocol: {_misfit(error)}"
        return _failure(call, text, REFUSED, outcome_unknown=True)
    if isinstance(answer, types.InputRequiredResult):
        if asked := Elicitation.of(answer):
            return _question(target, call, asked)
        text = (
            f"{target} asks for more in the middle of the call, which can't be answered here: "
            f"{_questions(answer)}"
        )
        return _failure(call, text, REFUSED, outcome_unknown=True)
    return result_of(answer, call.name)


def _question(target: Target, call: KindCall, asking: Elicitation, problem: str = "") -> ToolResult:
    text = (
        f"Error: Tool '{call.name}' failed: {target} asks a person, and this run can't wait "
        "for the answer"
    )
    return ToolResult(parts=[TextPart(value=text)], needs=asking.as_need(str(target), problem))


async def _send(
    client: mcp.Client, target: Target, call: KindCall, asking: Elicitation
) -> types.CallToolResult | types.InputRequiredResult:
    if (
        call.details.get("task")
        and (declared := client.session.initialize_result)
        and declared.capabilities.tasks
    ):
        return await _task_result(client, call)
    state, is_listed = asking.request_state, False

    async def report(progress: float, total: float | None, message: str | None) -> None:
        if all(map(math.isfinite, (progress, total or 0))):
            call.context.progress(progress, total, redact(one_line(message or "", 500)))

    while True:
        try:
            answer = await client.session.call_tool(
                call.details["tool"],
                dict(call.arguments),
                progress_callback=report,
                input_responses=dict(asking.given) or None,
                request_state=state,
                allow_input_required=True,
            )
        except mcp.MCPError as error:
            # The server wants arguments in headers, too: its list of tools has the details.
            if error.code != types.HEADER_MISMATCH or is_listed:
                raise
            is_listed = True
            await _pages(client, target)
            continue
        if not isinstance(answer, types.InputRequiredResult) or answer.input_requests:
            return answer
        state = answer.request_state  # The server asks for another call.
        await asyncio.sleep(_AGAIN_SECONDS)


async def _task_result(client: mcp.Client, call: KindCall) -> types.CallToolResult:
    params = types.CallToolRequestParams(
        name=call.details["tool"], arguments=dict(call.arguments), task=types.TaskMetadata()
    )
    created = await client.session.send_request(
        types.CallToolRequest(params=params), types.CallToolResult
    )
    if not (task := (created.meta or {}).get("task")):
        return created
    wanted = types.GetTaskPayloadRequest(params=types.GetTaskPayloadRequestParams(task_id=task))
    try:
        return await client.session.send_request(wanted, types.CallToolResult)
    except asyncio.CancelledError:
        over = types.CancelTaskRequest(params=types.CancelTaskRequestParams(task_id=task))
        with suppress(mcp.MCPError, ValidationError):
            await client.session.send_request(over, types.CancelTaskResult, CANCEL_SECONDS)
        raise


def _is_lost(error: mcp.MCPError) -> bool:
    fault = fault_of(error)
    return (
        fault.is_session_over
        if fault
        else error.code == types.CONNECTION_CLOSED or forgets_session(error.error)
    )


async def _loss(connection: McpConnection, error: mcp.MCPError) -> Fault | None:
    """Return the known facts about a connection that broke during a call; None if the error is the
    server's answer.
    """
    fault = fault_of(error)
    if fault is None and forgets_session(error.error) and await connection.is_forgotten():
        fault = SESSION_OVER
    if fault is None:
        if error.code != types.CONNECTION_CLOSED:
            return None
        return Fault(f"the connection broke: {connection.report or one_line(error.message, 200)}")
    if fault.is_session_over:
        connection.retire()
    return fault


def _misfit(error: ValidationError | RuntimeError) -> str:
    """Return how a server's answer breaks the protocol."""
    if isinstance(error, RuntimeError):
        return one_line(str(error), 500)
    first = error.errors(include_url=False)[0]
    return one_line(f"{'.'.join(map(str, first['loc']))}: {fault_text(first)}", 500)


def _questions(asked: types.InputRequiredResult) -> str:
    found = [
        getattr(each.params, "message", None) or each.method
        for each in (asked.input_requests or {}).values()
    ]
    return one_line("; ".join(map(str, found)), 1000)


def _failure(call: KindCall, text: str, kind: str, *, outcome_unknown: bool = False) -> ToolResult:
    text = redact(f"Error: Tool '{call.name}' failed: {text}")
    return ToolResult.failure(text, kind=kind, outcome_unknown=outcome_unknown)
