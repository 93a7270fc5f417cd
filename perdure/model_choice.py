"""Another model instead of an agent's: from a command, a call in Python, or a resumed run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .agents import DEFAULT_PROVIDER, Agent, Model, split_model
from .errors import ConfigurationError
from .json_types import JsonObject

_OF_A_SERVER = ("key", "anonymous", None)
"""The kinds of connections that still make sense at another endpoint."""


class ModelChoice(NamedTuple):
    """The changes to the model that an agent's file names; none by default."""

    id: str | None = None
    """The model's id; None for the file's own."""
    provider: str | None = None
    """None for the file's provider."""
    endpoint: str | None = None
    """None for the file's address, or that of the other provider."""

    def in_place_of(self, written: Any) -> Any:
        """Return a model in canonical form with these changes.

        The connection and the `additionalProperties` of one provider do not apply to another one,
        and are removed.
        """
        if not any(self):
            return written
        model = dict(written) if isinstance(written, Mapping) else {}
        if self.provider not in (None, model.get("provider") or DEFAULT_PROVIDER):
            options = model.get("options")
            kept = options if isinstance(options, Mapping) else {}
            model = {key: model[key] for key in ("id", "fallback") if key in model}
            model |= (
                {"options": {key: kept[key] for key in kept if key != "additionalProperties"}}
                if kept
                else {}
            )
        changes: JsonObject = {
            key: value
            for key, value in (("provider", self.provider), ("id", self.id))
            if value is not None
        }
        if self.endpoint is not None:
            before = model.get("connection")
            same = (
                before if isinstance(before, Mapping) and before.get("kind") in _OF_A_SERVER else {}
            )
            changes["connection"] = {"kind": "key", **same, "endpoint": self.endpoint}
        return {**model, **{key: value for key, value in changes.items() if value is not None}}


AS_WRITTEN = ModelChoice()
"""The model that the file names."""


def model_choice(
    name: str | None = None, provider: str | None = None, endpoint: str | None = None
) -> ModelChoice:
    """Return the model of that name, `ID`, `PROVIDER/ID` or `PROVIDER:ID`; with a `provider`, the
    rest is its id.

    Raises ConfigurationError for a name without an id, an empty provider, and an endpoint that is
    not a URL.
    """
    if provider is not None and not provider.strip():
        raise ConfigurationError(
            f"provider {provider!r}: expected a provider such as openai or anthropic"
        )
    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"endpoint {endpoint!r}: expected a URL that begins with http:// or https://, such as "
            "http://localhost:8000/v1"
        )
    if name is None:
        return ModelChoice(None, provider, endpoint)
    named, id = split_model(name)
    if provider is not None and named != provider:
        named, id = provider, name
    if not id.strip():
        raise ConfigurationError(f"model {name!r}: expected an id such as gpt-4o, or PROVIDER/ID")
    return ModelChoice(id, named, endpoint)


def with_other_model(agent: Agent, choice: ModelChoice) -> Agent:
    """Return a copy that uses the other model."""
    written = agent.model.model_dump(by_alias=True, exclude_unset=True) if agent.model else None
    return agent.model_copy(update={"model": Model.model_validate(choice.in_place_of(written))})
