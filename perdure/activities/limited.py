"""What an agent asks of a worker beyond the limits that its owner has set."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..agent import Agent
from ..errors import ConfigurationError
from ..hosts import is_listed, server_in
from ..prompty.places import Place, dotted, last_name, maps_in, strings
from ..prompty.portable import document_of
from ..prompty.secrets import credential_id, env_name, env_value, is_env_reference, is_resolved_late, takes_credential
from ..providers.registry import PROVIDERS
from ..providers.sdks import PROVIDER_KEYS
from ..worker_limits import OPEN, WorkerLimits, refusal

_NO_ADDRESSES = frozenset({"description", "parameters", "bindings", "headers", "args", "env", "recorded", "perdure"})
"""Where a text that begins as a URL does is none that is called."""
_MODELS_ENDPOINT, _MODELS_KEY = ("model", "connection", "endpoint"), ("model", "connection", "apiKey")


class Refusal(NamedTuple):
    """One thing that a worker does not do for an agent, and which option of its owner would allow it."""

    place: Place
    text: str


def require_allowed(agent: Agent, limits: WorkerLimits) -> None:
    """Raises ConfigurationError where the agent, its references unresolved, asks for more than a worker allows."""
    if limits == OPEN:
        return
    found = [f"{dotted(place)}: {text}" for place, text in refusals(document_of(agent), limits)]
    if found:
        raise ConfigurationError("\n".join(found))


def refusals(document: Mapping[str, Any], limits: WorkerLimits) -> Iterator[Refusal]:
    """What a worker with these limits refuses of an agent, given as a document with its references unresolved."""
    for place, text in strings({key: value for key, value in document.items() if key == "metadata"}):
        if is_env_reference(text) and is_resolved_late(place) and not limits.allows("env", env_name(text)):
            yield _refused_variable(place, text)
    if isinstance(model := document.get("model"), Mapping):
        yield from _of_part({key: model[key] for key in model if key != "fallback"}, ("model",), limits)
        for place, other in maps_in(model.get("fallback"), ("model", "fallback")):
            for refused in _of_part(other, ("model",), limits):
                yield Refusal((*place, *refused.place[1:]), refused.text)
    for place, tool in maps_in(document.get("tools"), ("tools",)):
        yield from _of_tool(tool, place, limits)


def _of_tool(tool: Mapping[str, Any], place: Place, limits: WorkerLimits) -> Iterator[Refusal]:
    kind = str(tool.get("kind", "function"))
    if kind != "function" and not limits.allows("kinds", kind):
        yield Refusal((*place, "kind"), refusal("kinds", kind, "takes no tools of kind"))
    options = tool.get("options")
    command = options.get("command") if kind == "mcp" and isinstance(options, Mapping) else None
    if isinstance(command, str) and command:
        started = env_value(command) if is_env_reference(command) else command
        if not limits.allows("commands", started or command):
            at = (*place, "options", "command")
            yield Refusal(at, refusal("commands", started or command, "starts no command"))
    yield from _of_part(tool, place, limits)


def _of_part(part: Mapping[str, Any], base: Place, limits: WorkerLimits) -> Iterator[Refusal]:
    """What is refused of the model or of one tool: what is secret in it goes to the hosts in it."""
    has_secret, urls = False, list[tuple[Place, str]]()
    for place, text in strings(part, base):
        if not is_resolved_late(place):
            urls.append((place, text))
        elif credential_id(text):
            has_secret = has_secret or takes_credential(place)
        elif not is_env_reference(text):
            urls.append((place, text))
        elif _is_of_provider(place, text, part, limits):
            continue
        elif not limits.allows("env", env_name(text)):
            yield _refused_variable(place, text)
        elif env_name(text) not in os.environ or last_name(place) != "endpoint":
            # An address in a variable is the owner's choice; a default in the file is not.
            urls.append((place, env_value(text) or ""))
            has_secret = has_secret or last_name(place) != "endpoint"
    for place, url in urls:
        if text := _refused_address(place, url, limits, with_secret=has_secret):
            yield Refusal(place, text)


def _refused_address(place: Place, text: str, limits: WorkerLimits, *, with_secret: bool) -> str:
    if not _NO_ADDRESSES.isdisjoint(place) or (place[0] == "model" and place[1] != "connection"):
        return ""
    if "allowedHosts" in place:
        return limits.refusal_of_url(f"https://{text}", with_secret=with_secret)
    if not text.strip().lower().startswith(("http:", "https:")):
        return ""
    if place[0] == "model" and any(key.fits(text) for key in PROVIDER_KEYS):
        return ""
    # The tool's key is sent to its specification only where that is on the server of the endpoint.
    return limits.refusal_of_url(text, with_secret=with_secret and place[2:] != ("specification",))


def _is_of_provider(place: Place, reference: str, model: Mapping[str, Any], limits: WorkerLimits) -> bool:
    """Whether it is a provider's key for that provider, or the address that the owner has set for one."""
    name = env_name(reference)
    if place == _MODELS_ENDPOINT:
        return bool(os.environ.get(name)) and any(name in key.endpoint_variables for key in PROVIDER_KEYS)
    key = next((key for key in PROVIDER_KEYS if key.variable == name), None)
    if place != _MODELS_KEY or key is None:
        return False
    endpoint = model["connection"].get("endpoint")
    if endpoint is None:
        return (model.get("provider") or "openai") in PROVIDERS
    address = env_value(endpoint) if is_env_reference(str(endpoint)) else endpoint
    server = server_in(address)
    return key.fits(address or "") or (server is not None and is_listed(server, limits.hosts or ()))


def _refused_variable(place: Place, reference: str) -> Refusal:
    name = env_name(reference)
    if any(name == key.variable for key in PROVIDER_KEYS):
        text = (
            f"this worker sends {name} to its provider only, not to the endpoint here: start it with --allow-hosts, "
            f"for a model's endpoint, or with --allow-env {name} (perdure docs worker-limits) if agents may use that"
        )
        return Refusal(place, text)
    return Refusal(place, refusal("env", name, "gives agents no variable"))
