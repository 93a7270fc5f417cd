"""Forms of an agent outside its file (for records, workers and documents), and the places of
secrets in an asset.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from ..agents import Agent, EnvReference, LoadedAgent, document_of, loaded_from
from ..arguments import Place, dotted_path
from ..errors import ConfigurationError
from ..json_types import JsonObject
from ..redaction import REDACTED, is_secret_name, know_agent, looks_secret, redact, redactor
from .shorthands import last_name, map_strings, pointer, strings

LITERAL_SECRET = (
    "is a secret itself, which every run would record: write `${env:NAME}` there and set NAME "
    "where the worker runs"
)
DEFAULT_SECRET = (
    "has a default that is a secret itself, which every run would record: write the reference "
    "without the default, and set the variable where the worker runs"
)
DELEGATES: Place = ("metadata", "perdure", "agents")
"""The list of agents that an agent delegates to, each of which becomes a tool."""
_NO_SECRETS = frozenset({"authenticationMode", "tokenUrl"})
_SHORTEST_DEFAULT = 16
"""A shorter default of a secret is a word such as `no-key`, for servers without keys."""
_USERINFO = re.compile(r"^https?://[^/?#@\s]+@|://[^/?#@\s:]*:[^/?#@\s]+@", re.IGNORECASE)
_QUERY = re.compile(r"[?&]([\w.-]+)=([^&#\s]+)")
_KEY = re.compile(r"key|sig|code|pass", re.IGNORECASE)
"""Names of secrets in a URL's query; elsewhere, they also count if the value is as long as a
key."""
_ASSIGNMENT = re.compile(r"-{0,2}([\w.-]+)(?:=|:\s+)(.+)", re.DOTALL)
_ENV_REFERENCE = re.compile(r"\$\{env:([^:}]*)(?::(.*))?\}", re.DOTALL)
_CREDENTIAL = re.compile(r"\$\{credential:([^{}\r\n]{1,200})\}")


def is_resolved_late(place: Place) -> bool:
    """Return whether an environment reference at that place is recorded as written, and resolved
    where it is used.

    That applies within connections and options of the model and of tools, and under every key that
    names a secret, but never to a `kind`, which decides the meaning of the rest.
    """
    if (
        place[0] not in ("model", "tools", "metadata")
        or place[-1] == "kind"
        or "parameters" in place
    ):
        return False
    if place[0] == "metadata":
        return is_secret_name(last_name(place)) or _is_of_delegate(place)
    if "connection" in place or "additionalProperties" in place:
        return True
    return (place[0] == "tools" and "options" in place) or is_secret_name(last_name(place))


def _is_of_delegate(place: Place) -> bool:
    """Return whether the place belongs to a remote agent's address, which becomes the connection of
    a tool.
    """
    return place[:3] == DELEGATES and place[4:5] in (("url",), ("cardUrl",), ("headers",))


def is_literal_secret(place: Place, text: str, named: frozenset[Place] = frozenset()) -> bool:
    """Return whether `text` at that place is itself a secret, not a reference to one.

    `named` are the places that a neighbouring value marks as secret (`places_named_secret`).
    """
    if place[0] not in ("model", "tools", "metadata") or not text.strip() or is_reference(text):
        return False
    return _is_secret(place, text, named)


def has_secret_default(place: Place, reference: str, named: frozenset[Place] = frozenset()) -> bool:
    """Return whether the default of an environment reference at that place is a secret, which
    travels with it.
    """
    default = env_default(reference) or ""
    if not default.strip() or not is_resolved_late(place):
        return False
    by_name = _is_named_secret(place, default) or place in named
    return len(default) >= _SHORTEST_DEFAULT if by_name else _is_secret(place, default, named)


def places_named_secret(document: Any) -> frozenset[Place]:
    """Return the places of secrets that a neighbour names: `{name: X-Api-Key, value: …}`, or
    `--api-key` before the value.
    """
    return frozenset(_named_in(document, ()))


def _named_in(value: Any, place: Place) -> Iterator[Place]:
    named = isinstance(value, Mapping) and "kind" not in value and _names_secret(value)
    children = value.items() if isinstance(value, Mapping) else ()
    before = ""
    for step, child in enumerate(value) if isinstance(value, list) else children:
        is_option = before.startswith("-") and "=" not in before and is_secret_name(before)
        if (named and step in ("value", "values", "default")) or (
            is_option and isinstance(child, str) and not child.startswith("-")
        ):
            yield (*place, step)
        yield from _named_in(child, (*place, step))
        before = child if isinstance(value, list) and isinstance(child, str) else ""


def _names_secret(value: Mapping[str, Any]) -> bool:
    named = next(
        (value[key] for key in ("name", "key", "header") if isinstance(value.get(key), str)), ""
    )
    return is_secret_name(named) or _KEY.fullmatch(named) is not None


def _is_secret(place: Place, text: str, named: frozenset[Place]) -> bool:
    if "parameters" in place or "bindings" in place:
        return looks_secret(text)
    if place[2:] == ("recorded",):  # A specification may show examples of URLs with keys.
        return looks_secret(text.replace(REDACTED, ""))
    return (
        _is_named_secret(place, text)
        or place in named
        or looks_secret(text)
        or _is_in_url(text)
        or _is_assigned(text)
    )


def _is_named_secret(place: Place, text: str) -> bool:
    name = last_name(place)
    if name in _NO_SECRETS:
        return False
    if place[-3:-1] == ("connection", "keys"):
        return True
    return is_secret_name(name) or (_KEY.fullmatch(name) is not None and _is_long(text))


def _is_in_url(text: str) -> bool:
    if "://" not in text:
        return False
    in_query = ((name, value) for name, value in _QUERY.findall(text) if not value.startswith("${"))
    return bool(_USERINFO.search(text)) or any(
        is_secret_name(name) or _KEY.fullmatch(name) for name, _ in in_query
    )


def _is_assigned(text: str) -> bool:
    """Return whether the text assigns a secret: `NAME=value`, `--name=value` or `Name: value`."""
    match = _ASSIGNMENT.fullmatch(text)
    return (
        match is not None
        and is_secret_name(match[1])
        and _is_long(match[2])
        and "://" not in match[1]
    )


def _is_long(text: str) -> bool:
    return len(text) >= _SHORTEST_DEFAULT and not re.search(r"\s", text)


def is_env_reference(text: str) -> bool:
    """Return whether the whole string is one `${env:NAME}` or `${env:NAME:default}`."""
    return _ENV_REFERENCE.fullmatch(text) is not None


def env_name(reference: str) -> str:
    """Return the NAME in `${env:NAME}`; "" for a string that is not an environment reference."""
    match = _ENV_REFERENCE.fullmatch(reference)
    return match[1] if match else ""


def env_default(reference: str) -> str | None:
    """Return the default in `${env:NAME:default}`, which may contain colons; None if missing or
    empty.
    """
    match = _ENV_REFERENCE.fullmatch(reference)
    return (match[2] or None) if match else None


def env_value(reference: str) -> str | None:
    """Return the value of the reference's variable, else its default, else None."""
    return os.environ.get(env_name(reference), env_default(reference))


def is_reference(text: str) -> bool:
    """Return whether the whole string refers to a value that only workers have: of their
    environment, or a credential.
    """
    return is_env_reference(text) or bool(credential_id(text))


def credential_id(text: str) -> str:
    """Return the ID in `${credential:ID}`; "" for a string that is not a reference to a
    credential.
    """
    match = _CREDENTIAL.fullmatch(text)
    return match[1].strip() if match else ""


def takes_credential(place: Place) -> bool:
    """Return whether a reference to a credential at that place is resolved: within the connection
    of the model or a tool.
    """
    is_reached = place[0] in ("model", "tools") or place[:3] == DELEGATES
    return is_reached and is_resolved_late(place)


def portable(agent: Agent) -> Agent:
    """Copy without secrets, to be sent and recorded: environment values in connections and options
    are references.

    Secrets in `metadata`, which no run needs, are redacted, and so are values of this process's
    secret variables in texts. Raises ConfigurationError for a secret anywhere else in the agent
    itself.
    """
    named = places_named_secret(document_of(agent))
    known = redactor(agent)

    def recorded_text(place: Place, text: str) -> str:
        reference = written_reference(agent, place, text) or (text if is_reference(text) else None)
        if reference and is_resolved_late(place):
            if has_secret_default(place, reference, named):
                return _refuse(place, DEFAULT_SECRET)
            return reference
        unknown = known.text(text)
        if unknown is text and not is_literal_secret(place, text, named):
            return text
        if place[0] in ("model", "tools") and "parameters" not in place:
            return _refuse(place, LITERAL_SECRET)
        return REDACTED if place[0] == "metadata" else redact(text, agent)

    return _rewritten(agent, recorded_text)


def _refuse(place: Place, why: str) -> NoReturn:
    raise ConfigurationError(f"{dotted_path(place)} {why}")


def resolve_environment(agent: Agent, credentials: Mapping[str, str] | None = None) -> Agent:
    """Return a copy whose references have their values in this process's environment: the inverse
    of `portable`.

    References to the given `credentials`, by id, get their values, too; others remain. Raises
    ConfigurationError, which names the variable, for one that is unset and has no default.
    """
    found: dict[str, EnvReference] = {}
    known = credentials or {}

    def resolve(place: Place, text: str) -> str:
        if not is_resolved_late(place):
            return text
        if (id := credential_id(text)) in known and takes_credential(place):
            found[pointer(place)] = EnvReference(text, known[id])
            return known[id]
        if not is_env_reference(text):
            return text
        value = env_value(text)
        if value is None:
            raise ConfigurationError(
                f"Environment variable '{env_name(text)}' is not set on the worker "
                f"({dotted_path(place)}): set it and start the worker again"
            )
        found[pointer(place)] = EnvReference(text, value)
        return value

    rewritten = _rewritten(agent, resolve)
    rewritten = LoadedAgent.of(rewritten, references={**loaded_from(agent).references, **found})
    know_agent(rewritten)
    return rewritten


def credentials_in(agent: Agent) -> dict[str, frozenset[str]]:
    """Return the ids of an agent's credentials, by the name of the tool that uses them; "" is the
    model.
    """
    found: dict[str, set[str]] = {}
    for place, text in strings(
        {key: value for key, value in document_of(agent).items() if key in ("model", "tools")}
    ):
        if (id := credential_id(text)) and takes_credential(place):
            owner = "" if place[0] == "model" else (agent.tools or [])[int(place[1])].name
            found.setdefault(owner, set()).add(id)
    return {owner: frozenset(ids) for owner, ids in found.items()}


def _rewritten(agent: Agent, change: Callable[[Place, str], str]) -> Agent:
    copy = Agent.model_validate(map_strings(document_of(agent), change))
    if not isinstance(agent, LoadedAgent):
        return copy
    known = loaded_from(agent)
    named = {"base_dir": known.base_dir, "roots": known.roots, "path": known.path}
    return LoadedAgent.of(copy, references=known.references, **named)


def agent_to_dict(agent: Agent, *, include_secrets: bool = False) -> JsonObject:
    """Agent as a document in canonical form: `kind: "prompt"`, named things in ordered lists, no
    section absent.

    A section without a value is None. Environment values in connections and options appear as the
    file's references, and secrets in the file as "[REDACTED]"; with `include_secrets`, both appear
    as their values.
    """
    fields = document_of(agent)
    if not include_secrets:
        named = places_named_secret(fields)
        fields = map_strings(fields, lambda place, text: _shown_text(agent, place, text, named))
    return {"kind": "prompt", **dict.fromkeys(Agent.file_keys()), **fields}


def written_reference(agent: Agent, place: Place, text: str) -> str | None:
    """Return the environment reference that `text` came from; None without one, or if the value has
    changed since.
    """
    reference = loaded_from(agent).references.get(pointer(place))
    return reference.text if reference and reference.value == text else None


def _shown_text(agent: Agent, place: Place, text: str, named: frozenset[Place]) -> str:
    reference = written_reference(agent, place, text)
    if reference and is_resolved_late(place):
        return reference
    return REDACTED if is_literal_secret(place, text, named) else text
