"""Loads an agent from a `.prompty` file, or from a map with the same keys (§2, §4), including
Octopus' own names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..agents import Agent, LoadedAgent
from ..arguments import Place, json_value
from ..errors import LoadError, warn_caller
from ..model_choice import AS_WRITTEN, ModelChoice
from .asset_file import WrittenAsset, read_asset
from .migration import Migration, Note
from .portable import is_resolved_late
from .references import References, is_unset, not_set
from .shorthands import Fail, Shorthands, maps_in, strings
from .validation import InvalidAssetError, to_agent

CREDENTIAL_ID = "credentialId"
SERVERS: Place = ("metadata", "octopus", "mcpServers")
MAX_DISCOVERY_SECONDS = 50.0
_SERVER_OPTIONS: Mapping[str, Any] = {
    "timeoutMs": int | float,
    "enabled": bool,
    "toolFilter": list | str | None,
}


def with_octopus_names(asset: Mapping[str, Any], fail: Fail) -> dict[str, Any]:
    """Return an asset in canonical form, with these names converted to perdure's own.

    `credentialId: 42` in a connection becomes `apiKey: ${credential:42}`, and each enabled server
    of `metadata.octopus.mcpServers` becomes a tool of `kind: mcp`, unless the asset has that very
    tool. Errors go to `fail`.
    """
    found = dict(asset)
    if isinstance(found.get("model"), Mapping):
        found["model"] = _with_api_key(found["model"], ("model",), fail)
    if isinstance(found.get("tools"), list):
        found["tools"] = [
            _with_api_key(tool, ("tools", index), fail) for index, tool in enumerate(found["tools"])
        ]
    if servers := list(_servers(found, fail)):
        found["tools"] = [*(found.get("tools") or []), *servers]
    return found


def _with_api_key(node: Any, place: Place, fail: Fail) -> Any:
    """Return a model or a tool with `apiKey` in its connection instead of `credentialId`."""
    connection = node.get("connection") if isinstance(node, Mapping) else None
    if not isinstance(connection, Mapping) or CREDENTIAL_ID not in connection:
        return node
    where = (*place, "connection", CREDENTIAL_ID)
    if connection.get("apiKey") is not None:
        fail(LoadError("is set together with `apiKey`: expected one of them"), where)
    rest = {key: value for key, value in connection.items() if key != CREDENTIAL_ID}
    return {**node, "connection": {**rest, **_key(connection[CREDENTIAL_ID], where, fail)}}


def _key(id: Any, place: Place, fail: Fail) -> dict[str, str]:
    if id is None:
        return {}
    text = str(id).strip() if isinstance(id, int | str) and not isinstance(id, bool) else ""
    if not text or set("{}\r\n") & {*text}:
        problem = f"expected the id of a credential, a number or a text, got {id!r:.60}"
        fail(LoadError(problem), place)
        return {}
    return {"apiKey": f"${{credential:{text}}}"}


def _servers(asset: Mapping[str, Any], fail: Fail) -> Iterator[dict[str, Any]]:
    settings: Any = asset
    for key in SERVERS:
        settings = settings.get(key) if isinstance(settings, Mapping) else None
    if settings is not None and not isinstance(settings, list):
        fail(LoadError(f"expected a list of servers, got {settings!r:.60}"), SERVERS)
        return
    declared = [
        (tool.get("name"), (tool.get("connection") or {}).get("endpoint"))
        for _, tool in maps_in(asset.get("tools"))
        if isinstance(tool.get("connection"), Mapping | None)
    ]
    for index, server in enumerate(settings or ()):
        place = (*SERVERS, index)
        if not _is_server(server):
            expected = "a map of name, baseUrl, credentialId, timeoutMs, enabled and toolFilter"
            fail(LoadError(f"expected {expected}, got {server!r:.80}"), place)
        elif server.get("enabled", True) and (server["name"], server["baseUrl"]) not in declared:
            yield _tool(server, _key(server.get("credentialId"), (*place, CREDENTIAL_ID), fail))


def _is_server(server: Any) -> bool:
    return (
        isinstance(server, Mapping)
        and server.keys() <= {"name", "baseUrl", CREDENTIAL_ID, *_SERVER_OPTIONS}
        and all(isinstance(server.get(key), str) for key in ("name", "baseUrl"))
        and all(isinstance(server[key], _SERVER_OPTIONS.get(key, object)) for key in server)
    )


def _tool(server: Mapping[str, Any], key: dict[str, str]) -> dict[str, Any]:
    connection = {"kind": "key" if key else "anonymous", "endpoint": server["baseUrl"], **key}
    tool: dict[str, Any] = {"name": server["name"], "kind": "mcp", "connection": connection}
    if names := server.get("toolFilter"):
        listed = names.split(",") if isinstance(names, str) else names
        tool["allowedTools"] = [str(name).strip() for name in listed]
    if "timeoutMs" in server:
        seconds = server["timeoutMs"] / 1000
        tool["options"] = {"discoveryTimeout": min(seconds, MAX_DISCOVERY_SECONDS)}
        tool["perdure"] = {"timeout": seconds}
    return tool


Roots = Sequence[str | os.PathLike[str]]


def load(
    path: str | os.PathLike[str],
    *,
    allowed_file_roots: Roots = (),
    defer_environment: bool = False,
    choice: ModelChoice = AS_WRITTEN,
) -> Agent:
    """Return the agent of a `.prompty` file, with `choice` instead of its model.

    A file of the first format is converted to the present one, with a DeprecationWarning for each
    change. `${file:…}` may read files in the file's own folder and in `allowed_file_roots`. With
    `defer_environment`, references to unset variables in connections stay as written, for
    `resolve_environment`. Raises FileNotFoundError for a missing file, and LoadError for any error
    in its content.
    """
    file = Path(path).absolute()
    if not os.path.exists(file):
        raise FileNotFoundError(f"Prompty file not found: {file}")
    written = read_asset(file)
    agent = _agent(written, file.parent, allowed_file_roots, defer_environment, choice)
    return LoadedAgent.of(agent, path=file.name)


def load_dict(
    data: Mapping[str, Any],
    *,
    base_dir: str | os.PathLike[str] | None = None,
    allowed_file_roots: Roots = (),
    defer_environment: bool = False,
) -> Agent:
    """Agent of a map: a frontmatter's keys, and the body as `instructions`, in which no reference
    is resolved.

    Relative paths start at `base_dir`; the other arguments are those of `load`. Raises LoadError
    for any error in the data.
    """
    if not isinstance(data, Mapping):
        raise LoadError(f"Invalid frontmatter: expected a map of properties, got {data!r:.60}")
    frontmatter = json_value(data)
    written = WrittenAsset(data=frontmatter, body=frontmatter.pop("instructions", ""))
    folder = None if base_dir is None else Path(base_dir).absolute()
    return _agent(written, folder, allowed_file_roots, defer_environment)


class Canonical(NamedTuple):
    """An asset in canonical form, and the way back to its written form."""

    asset: dict[str, Any]
    data: Mapping[str, Any]
    """The written form in the present format, references resolved."""
    notes: Sequence[Note]
    """The parts written in the first format."""
    written: Callable[[Place], Place]
    """The author's place for a place in `asset`."""


def canonical(
    written: WrittenAsset, references: References, choice: ModelChoice = AS_WRITTEN
) -> Canonical:
    """Return the asset in canonical form: references resolved, the first format migrated,
    shorthands expanded, with `choice` instead of its model.

    Errors in Octopus' names go where the references' errors go.
    """
    shorthands = Shorthands(references.fail)
    migration = Migration()
    data = migration.apply(references.resolve(written.data))
    asset = with_octopus_names(shorthands.expand(data), references.fail)
    if any(choice):
        asset["model"] = choice.in_place_of(asset.get("model"))
    if written.body:
        asset["instructions"] = written.body
    return Canonical(
        asset,
        data,
        migration.notes,
        lambda place: migration.written_path(shorthands.written_path(place)),
    )


def _agent(
    written: WrittenAsset,
    folder: Path | None,
    roots: Roots,
    defer_environment: bool,
    choice: ModelChoice = AS_WRITTEN,
) -> Agent:
    def fail(error: LoadError, place: Place) -> None:
        raise written.locate(error, place) from None

    found = canonical(written, References(folder, root_paths(roots), fail=fail), choice)
    for note in found.notes:
        warn_caller(str(written.locate(LoadError(note.text), note.place)), DeprecationWarning)
    for place, text in strings(found.asset):
        if is_unset(text) and not (defer_environment and is_resolved_late(place)):
            fail(LoadError(not_set(text)), found.written(place))
    try:
        agent = to_agent(found.asset)
    except InvalidAssetError as error:
        place, reason = error.problems[0]
        raise written.locate(LoadError(reason), found.written(place)) from None
    further = tuple(str(root.absolute()) for root in root_paths(roots))
    return LoadedAgent.of(agent, base_dir=None if folder is None else str(folder), roots=further)


def root_paths(roots: Roots) -> list[Path]:
    """Return the folders as paths; a single string is one folder, not a sequence of characters."""
    if isinstance(roots, str | os.PathLike):
        return [Path(roots)]
    return [Path(root) for root in roots]
