"""Combined declarations of tools: with a prefix before their names, and a filter of their offer.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .json_types import JsonObject, JsonView

Declared = JsonView
"""A tool in the form of files."""


def with_prefix(tool: Declared, prefix: str) -> JsonObject:
    """Return the tool with the prefix and `_` before the names of its functions for the model."""
    inner = _policy(tool).get("prefix")
    return _with_policy(tool, prefix=f"{prefix}_{inner}" if inner else prefix)


def with_filter(
    tools: Sequence[Declared], names: Sequence[str], *, keeps: bool
) -> list[JsonObject]:
    """Return the tools with these functions alone, or (`keeps` false) with all but these.

    A name that is not a function's belongs to another tool's offer, which is only known when a run
    begins. Raises ValueError for such a name unless exactly one tool can offer it.
    """
    functions = [_offered_name(tool, str(tool.get("name"))) for tool in tools if _is_function(tool)]
    rest = [name for name in names if name not in functions]
    if rest and len(tools) != len(functions) + 1:
        raise ValueError(
            f"no function is named {rest[0]!r}; there: {', '.join(functions) or 'none'}. Of "
            "several tools that offer functions, filter each before you put them together"
        )
    found: list[JsonObject] = []
    for tool in tools:
        if not _is_function(tool):
            found += (
                [_with_names(tool, rest, keeps=keeps)] if rest else [] if keeps else [dict(tool)]
            )
        elif (_offered_name(tool, str(tool.get("name"))) in names) is keeps:
            found.append(dict(tool))
    return found


def _with_names(tool: Declared, names: Sequence[str], *, keeps: bool) -> JsonObject:
    start = _offered_name(tool, "")
    if strange := [name for name in names if not name.startswith(start)]:
        raise ValueError(
            f"{tool.get('name')!r} does not offer {strange[0]!r}: its names begin with {start!r}"
        )
    plain = [name.removeprefix(start) for name in names]
    if not keeps:
        return _with_policy(tool, deniedTools=[*(_policy(tool).get("deniedTools") or ()), *plain])
    before = _policy(tool).get("allowedTools")
    return _with_policy(
        tool, allowedTools=[name for name in plain if before is None or name in before]
    )


def _is_function(tool: Declared) -> bool:
    return bool(tool.get("kind", "function") == "function")


def _offered_name(tool: Declared, name: str) -> str:
    prefix = _policy(tool).get("prefix")
    return f"{prefix}_{name}" if prefix else name


def _policy(tool: Declared) -> JsonView:
    policy = tool.get("perdure")
    return policy if isinstance(policy, Mapping) else {}


def _with_policy(tool: Declared, **changed: Any) -> JsonObject:
    return {**tool, "perdure": {**_policy(tool), **changed}}
