"""Finds an agent's requests that exceed the limits set by the worker's owner."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..agents import DEFAULT_PROVIDER, Agent, document_of
from ..arguments import Place, dotted_path
from ..errors import ConfigurationError
from ..json_types import JsonView
from .portable import (
    credential_id,
    env_name,
    env_value,
    is_env_reference,
    is_resolved_late,
    takes_credential,
)
from .shorthands import last_name, maps_in, strings
from .worker_limits import (
    OPEN,
    PROVIDER_KEYS,
    Refused,
    WorkerLimits,
    is_listed,
    keys_for,
    options_for,
    refused_url,
    server_in,
    wider_limits,
)

_NO_ADDRESSES = frozenset(
    {
        "description",
        "parameters",
        "bindings",
        "headers",
        "extra_headers",
        "args",
        "env",
        "recorded",
        "perdure",
    }
)
"""Fields where a text that begins like a URL is never called."""
_MODELS_OPTIONS = ("model", "options")
_MODELS_ENDPOINT, _MODELS_KEY = (
    ("model", "connection", "endpoint"),
    ("model", "connection", "apiKey"),
)


class Refusal(NamedTuple):
    """One request of an agent that a worker refuses."""

    place: Place
    refused: Refused


def require_allowed(agent: Agent, limits: WorkerLimits) -> None:
    """Raises ConfigurationError for an agent, its references unresolved, that asks for more than
    the worker allows.
    """
    if limits == OPEN:
        return
    document = document_of(agent)
    if found := refusals(document, limits):
        told = [f"{dotted_path(place)}: this worker {refused.does}" for place, refused in found]
        raise ConfigurationError("\n".join([*told, remedy(document, limits)]))


def refusals(document: JsonView, limits: WorkerLimits) -> list[Refusal]:
    """Return all that a worker with these limits refuses of an agent, a document with its
    references unresolved.

    Includes the refusals that would follow if the worker allowed a variable that it now withholds.
    """
    found = [*_refusals(document, limits)]
    wider = wider_limits(limits, [refused for _, refused in found if refused.limit == "env"])
    return [*dict.fromkeys([*found, *(_refusals(document, wider) if wider != limits else ())])]


def remedy(document: JsonView, limits: WorkerLimits) -> str:
    """Return the command that starts a worker without these refusals, as the end of a text with all
    `refusals`.
    """
    wider = limits
    while (
        more := wider_limits(wider, [refused for _, refused in _refusals(document, wider)])
    ) != wider:
        wider = more
    if wider == limits:
        return "No option allows that: see perdure docs worker-limits"
    closes = limits.hosts is None and wider.hosts is not None
    closed = (
        "; with --allow-hosts, agents call no other host than those and the model's own provider"
        if closes
        else ""
    )
    return (
        f"If agents may use that, start the worker with these options, besides its others "
        f"(perdure docs worker-limits{closed}):\nperdure worker {options_for(limits, wider)}"
    )


def _refusals(document: JsonView, limits: WorkerLimits) -> Iterator[Refusal]:
    for place, text in strings(
        {key: value for key, value in document.items() if key == "metadata"}
    ):
        if (
            is_env_reference(text)
            and is_resolved_late(place)
            and not limits.allows("env", env_name(text))
        ):
            yield Refusal(place, _refused_variable(env_name(text)))
    if isinstance(model := document.get("model"), Mapping):
        yield from _of_part(
            {key: model[key] for key in model if key != "fallback"}, ("model",), limits
        )
        for place, other in maps_in(model.get("fallback"), ("model", "fallback")):
            for refused in _of_part(other, ("model",), limits):
                yield Refusal((*place, *refused.place[1:]), refused.refused)
    for place, tool in maps_in(document.get("tools"), ("tools",)):
        yield from _of_tool(tool, place, limits)


def _of_tool(tool: JsonView, place: Place, limits: WorkerLimits) -> Iterator[Refusal]:
    kind = str(tool.get("kind", "function"))
    if kind != "function" and not limits.allows("kinds", kind):
        yield Refusal((*place, "kind"), Refused(f"takes no tools of kind {kind!r}", "kinds", kind))
    options = tool.get("options")
    command = options.get("command") if kind == "mcp" and isinstance(options, Mapping) else None
    if isinstance(command, str) and command:
        started = (env_value(command) if is_env_reference(command) else command) or command
        if not limits.allows("commands", started):
            at = (*place, "options", "command")
            yield Refusal(at, Refused(f"starts no command {started!r}", "commands", started))
    yield from _of_part(tool, place, limits)


def _of_part(part: JsonView, base: Place, limits: WorkerLimits) -> Iterator[Refusal]:
    """Yield the refusals for the model or for one tool: its secrets go to the hosts that it names.

    Of a model's options, only the secrets in the options go to the hosts in the options, which the
    provider calls.
    """
    secrets, urls = list[Place](), list[tuple[Place, str]]()
    for place, text in strings(part, base):
        if not is_resolved_late(place):
            urls.append((place, text))
        elif credential_id(text):
            secrets += [place] if takes_credential(place) else []
        elif not is_env_reference(text):
            urls.append((place, text))
        elif _is_of_provider(place, text, part, limits):
            continue
        elif not limits.allows("env", env_name(text)):
            yield Refusal(place, _refused_variable(env_name(text), _models_host(place, part)))
        elif env_name(text) not in os.environ or last_name(place) != "endpoint":
            # The owner has chosen an address in a variable; a default in the file comes from the
            # author.
            urls.append((place, env_value(text) or ""))
            secrets += [place] if last_name(place) != "endpoint" else []
    connection = part.get("connection")
    if isinstance(connection, Mapping) and connection.get("kind") == "oauth":
        secrets.append((*base, "connection"))  # The worker's tokens, if the file has no secret.
    for place, url in urls:
        in_options = place[:2] == _MODELS_OPTIONS
        with_secret = any(not in_options or secret[:2] == _MODELS_OPTIONS for secret in secrets)
        if in_options and not with_secret:
            continue
        if refused := _refused_address(place, url, limits, with_secret=with_secret):
            yield Refusal(place, refused)


def _refused_address(
    place: Place, text: str, limits: WorkerLimits, *, with_secret: bool
) -> Refused | None:
    if not _NO_ADDRESSES.isdisjoint(place) or (
        place[0] == "model" and place[1] not in ("connection", "options")
    ):
        return None
    if "allowedHosts" in place:
        return refused_url(limits, f"https://{text}", with_secret=with_secret)
    if not text.strip().lower().startswith(("http:", "https:")):
        return None
    if place[0] == "model" and any(key.fits(text) for key in PROVIDER_KEYS):
        return None
    # The tool's key goes to its specification only if both are on the same server.
    return refused_url(limits, text, with_secret=with_secret and place[2:] != ("specification",))


def _is_of_provider(place: Place, reference: str, model: JsonView, limits: WorkerLimits) -> bool:
    """Return whether the reference is a provider's key for that provider, or an address set by the
    owner.
    """
    name = env_name(reference)
    if place == _MODELS_ENDPOINT:
        return bool(os.environ.get(name)) and any(
            name in key.endpoint_variables for key in PROVIDER_KEYS
        )
    key = next((key for key in PROVIDER_KEYS if key.variable == name), None)
    if place != _MODELS_KEY or key is None:
        return False
    address = _models_endpoint(model)
    if address is None:
        return key in keys_for(model.get("provider") or DEFAULT_PROVIDER)
    server = server_in(address)
    return key.fits(address) or (server is not None and is_listed(server, limits.hosts or ()))


def _models_endpoint(model: JsonView) -> str | None:
    endpoint = model["connection"].get("endpoint")
    if endpoint is None:
        return None
    return (env_value(endpoint) or "") if is_env_reference(str(endpoint)) else str(endpoint)


def _models_host(place: Place, model: JsonView) -> str:
    """Return the host that gets a model's key; "" for another place, and if it is unknown."""
    server = server_in(_models_endpoint(model)) if place == _MODELS_KEY else None
    return server.address if server else ""


def _refused_variable(name: str, models_host: str = "") -> Refused:
    if all(name != key.variable for key in PROVIDER_KEYS):
        return Refused(f"gives agents no variable {name!r}", "env", name)
    does = f"sends {name} to its provider only, not to the provider or endpoint here"
    return Refused(does, "hosts", models_host) if models_host else Refused(does, "env", name)
