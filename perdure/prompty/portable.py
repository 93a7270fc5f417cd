"""The forms of an agent outside its file: the copy that may be recorded, the one a worker uses, and the document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ..agent import Agent, EnvReference
from ..errors import ConfigurationError
from ..redaction import REDACTED, know_agent, redact, redactor
from .known_fields import is_ignored
from .places import Place, dotted, map_strings, pointer, strings
from .secrets import (
    DEFAULT_SECRET,
    LITERAL_SECRET,
    credential_id,
    env_name,
    env_value,
    has_secret_default,
    is_env_reference,
    is_literal_secret,
    is_reference,
    is_resolved_late,
    places_named_secret,
    takes_credential,
)


def portable(agent: Agent) -> Agent:
    """A copy without secrets, to be sent and recorded: environment values in connections and options are references.

    Secrets in `metadata`, which no run needs, are redacted, and so are values of this process's secret variables in
    texts. Raises ConfigurationError for a secret that is written anywhere else in the agent itself.
    """
    named = places_named_secret(document_of(agent))
    known = redactor(agent)

    def travelling(place: Place, text: str) -> str:
        reference = written_reference(agent, place, text) or (text if is_reference(text) else None)
        if reference and is_resolved_late(place):
            if has_secret_default(place, reference, named):
                return _refused(place, DEFAULT_SECRET)
            return reference
        unknown = known.text(text)
        if unknown is text and not is_literal_secret(place, text, named):
            return text
        if place[0] in ("model", "tools") and "parameters" not in place:
            return _refused(place, LITERAL_SECRET)
        return REDACTED if place[0] == "metadata" else redact(text, agent)

    return _rewritten(agent, travelling)


def _refused(place: Place, why: str) -> NoReturn:
    raise ConfigurationError(f"{dotted(place)} {why}")


def resolve_environment(agent: Agent, credentials: Mapping[str, str] | None = None) -> Agent:
    """The way back from `portable`: a copy whose references have their values in this process's environment.

    So have the credentials that are given, by id; others remain references. Raises ConfigurationError, which names the
    variable, for one that is unset and has no default.
    """
    found: dict[str, EnvReference] = {}
    known = credentials or {}

    def resolved(place: Place, text: str) -> str:
        if not is_resolved_late(place):
            return text
        if (id := credential_id(text)) in known and takes_credential(place):
            found[pointer(place)] = EnvReference(text, known[id])
            return known[id]
        if not is_env_reference(text):
            return text
        value = env_value(text)
        if value is None and is_ignored(document_of(agent), place, None):
            return text
        if value is None:
            raise ConfigurationError(
                f"Environment variable '{env_name(text)}' is not set on the worker ({dotted(place)}): "
                "set it and start the worker again"
            )
        found[pointer(place)] = EnvReference(text, value)
        return value

    rewritten = _rewritten(agent, resolved)
    rewritten._references = {**agent._references, **found}
    know_agent(rewritten)
    return rewritten


def credentials_in(agent: Agent) -> dict[str, frozenset[str]]:
    """The ids of the credentials that an agent names, by the name of the tool that has them; "" is the model."""
    found: dict[str, set[str]] = {}
    for place, text in strings({key: value for key, value in document_of(agent).items() if key in ("model", "tools")}):
        if (id := credential_id(text)) and takes_credential(place):
            owner = "" if place[0] == "model" else (agent.tools or [])[int(place[1])].name
            found.setdefault(owner, set()).add(id)
    return {owner: frozenset(ids) for owner, ids in found.items()}


def _rewritten(agent: Agent, change: Callable[[Place, str], str]) -> Agent:
    copy = Agent.model_validate(map_strings(document_of(agent), change))
    copy._references = dict(agent._references)
    copy._base_dir = agent._base_dir
    copy._file_roots = agent._file_roots
    return copy


def agent_to_dict(agent: Agent, *, include_secrets: bool = False) -> dict[str, Any]:
    """The agent as a document in canonical form: `kind: "prompt"`, named things in ordered lists, no section absent.

    A section without a value is None. Environment values in connections and options appear as the file's references,
    and secrets that are written in the file as "[REDACTED]"; with `include_secrets`, both appear as their values.
    """
    fields = document_of(agent)
    if not include_secrets:
        named = places_named_secret(fields)
        fields = map_strings(fields, lambda place, text: _shown(agent, place, text, named))
    return {"kind": "prompt", **dict.fromkeys(Agent.file_keys()), **fields}


def document_of(agent: Agent) -> dict[str, Any]:
    """All fields that have a value, under the names that files use."""
    return agent.model_dump(mode="json", by_alias=True, exclude_none=True)


def written_reference(agent: Agent, place: Place, text: str) -> str | None:
    """The environment reference that `text` came from; None without one, or when the value was changed since."""
    reference = agent._references.get(pointer(place))
    return reference.text if reference and reference.value == text else None


def _shown(agent: Agent, place: Place, text: str, named: frozenset[Place]) -> str:
    reference = written_reference(agent, place, text)
    if reference and is_resolved_late(place):
        return reference
    return REDACTED if is_literal_secret(place, text, named) else text
