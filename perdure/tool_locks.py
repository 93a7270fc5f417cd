"""The offers of other systems' tools, pinned in a file beside the agent (`perdure lock`), and their
changes. Pure.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .declared_tools import Tool
from .errors import LoadError
from .json_types import JsonObject
from .text import excerpt, fault_text, visible

SUFFIX = ".lock"
"""The lock of `desk.prompty` is `desk.prompty.lock`."""
LOCKABLE = frozenset({"mcp", "openapi", "a2a", "delegate"})
"""Kinds of tools that other systems describe."""
MAX_CHANGES = 50
"""The most changes of one tool that are reported."""
SHOWN = 120
"""Characters of a value."""
_URL = re.compile(r"(https?)://([^/?#\\]*)", re.IGNORECASE)
OnChange = Literal["stop", "ask"]


class Pinned(BaseModel):
    """Refuses files of a newer version, instead of reading them in part."""

    model_config = ConfigDict(extra="forbid")


class PinnedFunction(Pinned):
    """One function that a tool offers."""

    description: str | None = None
    parameters: JsonObject = {}
    """The JSON Schema of its arguments."""
    details: JsonObject = {}
    """The target of its calls: the remote name, an HTTP method and path, hosts."""


class PinnedTool(Pinned):
    """The offer of one declared tool."""

    host: str = ""
    """The tool's host by the agent's file; "" if the file has none."""
    functions: dict[str, PinnedFunction] = {}


class LockDocument(Pinned):
    """The content of a lock's file."""

    version: Literal[1] = 1
    on_change: OnChange = Field(default="stop", alias="onChange")
    """The reaction to changed offers: the run stops, or a person is asked."""
    tools: dict[str, PinnedTool] = {}

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    @property
    def text(self) -> str:
        """Return the file's content, sorted, so that its versions can be compared."""
        return (
            json.dumps(self.model_dump(by_alias=True), indent=1, sort_keys=True, ensure_ascii=False)
            + "\n"
        )


class ToolLock(Pinned):
    """A run's copy of the lock of one tool (`locked` of a declared tool)."""

    on_change: OnChange = "stop"
    tool: PinnedTool = PinnedTool()


def read_lock(text: str, path: str) -> LockDocument:
    """Return the content of a lock's file. Raises LoadError for anything else."""
    try:
        return LockDocument.model_validate_json(text)
    except ValidationError as error:
        fault = fault_text(dict(error.errors(include_url=False)[0]))
        raise LoadError(
            f"{path} is not a lock file: {fault}. Delete it, and `perdure lock` writes a new one"
        ) from None


def with_lock(tools: list[Tool], lock: LockDocument) -> list[Tool]:
    """Return the tools with their pins in the lock; a tool that it does not name may offer
    nothing.
    """

    def with_pins(tool: Tool) -> Tool:
        if tool.kind not in LOCKABLE:
            return tool
        known = ToolLock(on_change=lock.on_change, tool=lock.tools.get(tool.name, PinnedTool()))
        return tool.model_copy(update={"locked": known.model_dump_json()})

    return [with_pins(tool) for tool in tools]


def host_of(tool: Tool) -> str:
    """Return the address of a declared tool, without user and path: `https://mcp.example.com`, or
    the command of a server.
    """
    connection = getattr(tool, "connection", None)
    options = getattr(tool, "options", None) or {}
    for place in (
        connection and connection.endpoint,
        options.get("card"),
        getattr(tool, "specification", None),
    ):
        if isinstance(place, str) and (url := _URL.match(place)):
            return f"{url[1].lower()}://{url[2].rpartition('@')[2].lower()}"
    return str(options.get("command") or "")


def changes(name: str, locked: PinnedTool, now: PinnedTool) -> list[str]:
    """Return the additions and changes of a tool's offer since its lock, one per line; [] for
    none.
    """
    found = list(_changes(name, locked, now))
    more = len(found) - MAX_CHANGES
    return found if more <= 0 else [*found[:MAX_CHANGES], f"{name}: and {more:,} more changes"]


def _changes(name: str, locked: PinnedTool, now: PinnedTool) -> Iterator[str]:
    if locked.host != now.host:
        yield f"{name}: is at {_shown_text(now.host)}, and was at {_shown_text(locked.host)}"
    for function in sorted(now.functions.keys() - locked.functions.keys()):
        description = _shown_text(now.functions[function].description)
        yield f"{name}: offers {_shown_text(function)}, which is new: {description}"
    for function in sorted(locked.functions.keys() - now.functions.keys()):
        yield f"{name}: no longer offers {_shown_text(function)}"
    for function in sorted(locked.functions.keys() & now.functions.keys()):
        before, after = locked.functions[function], now.functions[function]
        place = f"{name}: {function}"
        if before.description != after.description:
            yield (
                f"{place}: description "
                f"{_text_change(before.description or '', after.description or '')}"
            )
        yield from _value_changes(f"{place}: parameters", before.parameters, after.parameters)
        yield from _value_changes(f"{place}: is called by", before.details, after.details)


def _value_changes(place: str, before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted(before.keys() | after.keys()):
            where = f"{place}.{visible(str(key))}"
            if key not in after:
                yield f"{where} is gone, was {_shown_text(before[key])}"
            elif key not in before:
                yield f"{where} is new: {_shown_text(after[key])}"
            else:
                yield from _value_changes(where, before[key], after[key])
    elif isinstance(before, str) and isinstance(after, str) and before != after:
        yield f"{place} {_text_change(before, after)}"
    elif before != after or type(before) is not type(after):
        yield f"{place} is {_shown_text(after)}, was {_shown_text(before)}"


def _text_change(before: str, after: str) -> str:
    """Return the change of a text: whole, or for long texts the part between their common beginning
    and end.
    """
    if max(len(before), len(after)) <= SHOWN:
        return f"is {_shown_text(after)}, was {_shown_text(before)}"
    begin = len(os.path.commonprefix([before, after]))
    end = len(os.path.commonprefix([before[begin:][::-1], after[begin:][::-1]]))
    now, then = (text[max(begin - 20, 0) : len(text) - end + 20] for text in (after, before))
    return f"has {_shown_text(now)} from character {begin + 1:,} on, had {_shown_text(then)}"


def _shown_text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    # Instructions to models hide in invisible characters.
    return repr(
        excerpt(
            text.encode("ascii", "backslashreplace").decode() if not text.isprintable() else text,
            SHOWN,
        )
    )


def lock_of(tool: Tool) -> ToolLock | None:
    """Return the lock of a declared tool; None for one that is not locked."""
    text = cast("str | None", getattr(tool, "locked", None))
    return None if text is None else ToolLock.model_validate_json(text)
