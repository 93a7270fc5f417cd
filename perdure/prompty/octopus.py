"""Reads what Octopus calls by names of its own: the ids of credentials in connections, and the list of MCP servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..errors import LoadError
from ..options import MAX_SECONDS, MIN_SECONDS
from ..spelling import did_you_mean
from .places import Place

CREDENTIAL_ID = "credentialId"
SERVERS: Place = ("metadata", "octopus", "mcpServers")
MAX_DISCOVERY_SECONDS = 50.0
_FIELDS = ("name", "baseUrl", CREDENTIAL_ID, "timeoutMs", "enabled", "toolFilter")

Fail = Callable[[LoadError, Place], None]


def with_octopus_names(asset: Mapping[str, Any], fail: Fail) -> dict[str, Any]:
    """An asset in canonical form in which these names are brought to perdure's own.

    `credentialId: 42` in a connection is `apiKey: ${credential:42}`, and each server of `metadata.octopus.mcpServers`
    that is enabled is a tool of `kind: mcp`, unless the asset has that very tool. What is wrong goes to `fail`.
    """
    found = dict(asset)
    if isinstance(found.get("model"), Mapping):
        found["model"] = _reached(found["model"], ("model",), fail)
    if isinstance(found.get("tools"), list):
        found["tools"] = [_reached(tool, ("tools", index), fail) for index, tool in enumerate(found["tools"])]
    if servers := list(_servers(found, fail)):
        found["tools"] = [*(found.get("tools") or []), *servers]
    return found


def _reached(node: Any, place: Place, fail: Fail) -> Any:
    """A model or a tool, its connection without the other name."""
    connection = node.get("connection") if isinstance(node, Mapping) else None
    if not isinstance(connection, Mapping) or CREDENTIAL_ID not in connection:
        return node
    where = (*place, "connection", CREDENTIAL_ID)
    if connection.get("apiKey") is not None:
        fail(LoadError("stands beside `apiKey`, expected one of them"), where)
    rest = {key: value for key, value in connection.items() if key != CREDENTIAL_ID}
    return {**node, "connection": {**rest, **_key(connection[CREDENTIAL_ID], where, fail)}}


def _key(id: Any, place: Place, fail: Fail) -> dict[str, str]:
    if id is None:
        return {}
    is_id = (
        isinstance(id, int | str) and not isinstance(id, bool) and str(id).strip() and not set("{}\r\n") & {*str(id)}
    )
    if not is_id:
        fail(LoadError(f"expected the id of a credential, a number or a text, got {id!r:.60}"), place)
        return {}
    return {"apiKey": f"${{credential:{str(id).strip()}}}"}


def _servers(asset: Mapping[str, Any], fail: Fail) -> Iterator[dict[str, Any]]:
    settings = asset.get("metadata")
    for key in SERVERS[1:]:
        settings = settings.get(key) if isinstance(settings, Mapping) else None
    if settings is not None and not isinstance(settings, list):
        fail(LoadError(f"expected a list of servers, got {settings!r:.60}"), SERVERS)
        return
    tools = asset.get("tools")
    declared = [tool for tool in tools if isinstance(tool, Mapping)] if isinstance(tools, list) else []
    for index, server in enumerate(settings or ()):
        place = (*SERVERS, index)
        problems = list(_problems(server, place))
        for where, text in problems:
            fail(LoadError(text), where)
        if problems or server.get("enabled") is False:
            continue
        tool = _tool(server, place, fail)
        if not any(_is_same(each, tool) for each in declared):
            yield tool


def _is_same(declared: Mapping[str, Any], tool: Mapping[str, Any]) -> bool:
    connection = declared.get("connection")
    endpoint = connection.get("endpoint") if isinstance(connection, Mapping) else None
    return bool(declared.get("name") == tool["name"] and endpoint == tool["connection"]["endpoint"])


def _problems(server: Any, place: Place) -> Iterator[tuple[Place, str]]:
    if not isinstance(server, Mapping):
        yield place, f"expected a map with {', '.join(_FIELDS)}, got {server!r:.60}"
        return
    for key in server:
        if key not in _FIELDS:
            yield (*place, str(key)), f"is unknown{did_you_mean(str(key), _FIELDS)}. Expected {', '.join(_FIELDS)}"
    for key in ("name", "baseUrl"):
        if not isinstance(server.get(key), str) or not server[key]:
            yield (*place, key), f"expected a text, got {server.get(key)!r:.60}"
    if not isinstance(server.get("enabled", True), bool):
        yield (*place, "enabled"), f"expected true or false, got {server['enabled']!r:.60}"
    if (milliseconds := server.get("timeoutMs")) is not None:
        is_number = isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool)
        if not is_number or not MIN_SECONDS <= milliseconds / 1000 <= MAX_SECONDS:
            yield (*place, "timeoutMs"), f"expected milliseconds, got {milliseconds!r:.60}"
    wanted = server.get("toolFilter")
    if not isinstance(wanted, str | None) and not (
        isinstance(wanted, list) and all(isinstance(name, str) for name in wanted)
    ):
        yield (*place, "toolFilter"), f"expected a list of tool names, got {wanted!r:.60}"


def _tool(server: Mapping[str, Any], place: Place, fail: Fail) -> dict[str, Any]:
    key = _key(server.get(CREDENTIAL_ID), (*place, CREDENTIAL_ID), fail)
    wanted = server.get("toolFilter") or None
    names = [name.strip() for name in wanted.split(",")] if isinstance(wanted, str) else wanted
    seconds = server.get("timeoutMs", 0) / 1000 if server.get("timeoutMs") else None
    return {
        "name": str(server["name"]),
        "kind": "mcp",
        "connection": {"kind": "key" if key else "anonymous", "endpoint": server["baseUrl"], **key},
        **({"allowedTools": names} if names else {}),
        **({"options": {"discoveryTimeout": min(seconds, MAX_DISCOVERY_SECONDS)}} if seconds else {}),
        **({"perdure": {"timeout": seconds}} if seconds else {}),
    }
