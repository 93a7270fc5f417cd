"""The server's tools that the model is offered, their names, and the need for a person's approval
(§2.8).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

from ...declared_tools import McpApprovalMode, Tool
from ...json_types import JsonObject, JsonView
from ...redaction import get_logger, redactor
from ...text import bounded_text, one_line, valid_json
from ..kind import Offering, ToolOfferError
from .declaration import title_of

if TYPE_CHECKING:
    from mcp import types

MAX_TOOLS = 1000
"""Maximum number of tools that a server may list."""
MAX_DESCRIPTION_BYTES = 16 * 1024
_LONGEST = 64
_log = get_logger("perdure.tools.mcp")


def offerings(tool: Tool, listed: Sequence[types.Tool]) -> list[Offering]:
    """Return the functions that the model is offered of a server's listed tools, in that order.

    Raises ToolOfferError if the declaration names tools that the server does not have.
    """
    by_name: dict[str, types.Tool] = {}
    for each in listed:
        by_name.setdefault(each.name, each)
    _check_names(tool, by_name)
    allowed = getattr(tool, "allowed_tools", None)
    meant = [each for name, each in by_name.items() if allowed is None or name in allowed]
    meant = [each for each in meant if _has_object_schema(tool, each)]
    names = function_names([each.name for each in meant], tool.name)
    return [_offering_of(tool, each, names[each.name]) for each in meant]


def function_names(names: Sequence[str], server: str) -> dict[str, str]:
    """Return a function name for each tool's name: the same if valid, else the nearest free one, or
    `SERVER_TOOL`.

    Depends on the names alone. No two tools get the same name.
    """
    used: set[str] = set()
    chosen: dict[str, str] = {}
    # Tools that can keep their name come first, so that no other takes it.
    for name in names:
        if name == _valid_name(name):
            chosen[name] = name
            used.add(name)
    for name in [each for each in names if each not in chosen]:
        candidates = (_valid_name(name), _valid_name(f"{server}_{name}"))
        free = next((candidate for candidate in candidates if candidate not in used), None)
        chosen[name] = free or _digest_name(f"{server}_{name}", name)
        used.add(chosen[name])
    return chosen


def _valid_name(name: str) -> str:
    """Return the name with `_` for characters invalid in a function's name; a long one ends in a
    digest of all of it.
    """
    written = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    return written if 0 < len(written) <= _LONGEST else _digest_name(written or "tool", name)


def _digest_name(written: str, name: str) -> str:
    digest = blake2b(name.encode(errors="replace"), digest_size=4).hexdigest()
    return re.sub(r"[^A-Za-z0-9_-]", "_", written)[: _LONGEST - 9] + "_" + digest


def _offering_of(tool: Tool, listed: types.Tool, name: str) -> Offering:
    known = redactor()
    hints = listed.annotations
    idempotent = hints is not None and bool(hints.idempotent_hint or hints.read_only_hint)
    is_task = listed.execution is not None and listed.execution.task_support == "required"
    description = listed.description or listed.title or (hints.title if hints else None)
    return Offering(
        name=name,
        description=known.text(bounded_text(description, MAX_DESCRIPTION_BYTES))
        if description
        else None,
        parameters=known.value(_parameters(listed.input_schema)),
        details={
            "tool": listed.name,
            "idempotent": idempotent,
            **({"task": True} if is_task else {}),
        },
        idempotent=idempotent,
        safe_to_repeat=idempotent,
        needs_approval=needs_approval(getattr(tool, "approval_mode", None), listed.name),
    )


def _parameters(schema: JsonView) -> JsonObject:
    kept = {key: value for key, value in schema.items() if key != "$schema"}
    written: JsonObject = valid_json({"type": "object", "properties": {}, **kept})
    return written


def needs_approval(mode: McpApprovalMode | None, name: str) -> bool:
    """Return whether a person must approve each call of a tool.

    With `specify`, a tool in neither list needs an approval if there is a list of tools that do
    not.
    """
    if mode is None or mode.kind != "specify":
        return mode is not None and mode.kind == "always"
    if name in (mode.always_require_approval_tools or ()):
        return True
    return (
        mode.never_require_approval_tools is not None
        and name not in mode.never_require_approval_tools
    )


def _has_object_schema(tool: Tool, listed: types.Tool) -> bool:
    if listed.input_schema.get("type", "object") == "object" and isinstance(
        listed.input_schema.get("properties", {}), dict
    ):
        return True
    _log.warning(
        "Tool %r of MCP server %r is not offered: its arguments are not an object",
        one_line(listed.name),
        title_of(tool),
    )
    return False


def _check_names(tool: Tool, listed: Collection[str]) -> None:
    for place, name in _named_tools(tool):
        if name not in listed:
            has = one_line(", ".join(sorted(listed)), 1000) or "none"
            raise ToolOfferError(
                f"{place} names {name!r}, which MCP server {title_of(tool)!r} does not have; it "
                f"has: {has}"
            )


def _named_tools(tool: Tool) -> Iterator[tuple[str, str]]:
    for name in getattr(tool, "allowed_tools", None) or ():
        yield "allowedTools", name
    mode = getattr(tool, "approval_mode", None)
    for name in (mode.always_require_approval_tools if mode else None) or ():
        yield "approvalMode.alwaysRequireApprovalTools", name
    for name in (mode.never_require_approval_tools if mode else None) or ():
        yield "approvalMode.neverRequireApprovalTools", name
