"""Models as one text, `PROVIDER/ID`: which providers there are, and where the provider ends."""

from __future__ import annotations

from importlib.metadata import entry_points

PROVIDERS_GROUP = "perdure.providers"
"""An installed package adds a provider by an entry point of this group."""
BUILT_IN_PROVIDERS = ("anthropic", "azure", "foundry", "openai")


def split_model(name: str) -> tuple[str | None, str]:
    """The provider and the id in `PROVIDER/ID`.

    A name with a `/` whose beginning is no provider is an id, such as `meta-llama/Llama-3.3-70B`: its provider is None,
    as is that of a name without one. Never raises.
    """
    provider, slash, id = name.partition("/")
    is_provider = slash and (provider in BUILT_IN_PROVIDERS or entry_points(group=PROVIDERS_GROUP, name=provider))
    return (provider, id) if is_provider else (None, name)
