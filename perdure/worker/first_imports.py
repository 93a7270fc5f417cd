"""Imports modules for a worker's first model calls in advance."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module

from ..agents import Agent
from ..providers.clients import tls_context
from ..providers.prices import load_list
from ..providers.registry import provider_for

logger = logging.getLogger(__name__)

DELAY_SECONDS = 0.2
"""A worker that has a run by then, such as that of `perdure run`, imports only the modules of that
run."""
SDKS = {
    "openai": ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"),
    "anthropic": ("ANTHROPIC_API_KEY",),
}
"""By module, the environment variables that make its use likely."""


async def warm_up() -> None:
    """Import likely modules in a thread; the first run then takes a third of the time."""
    await asyncio.sleep(DELAY_SECONDS)
    if likely_sdks() and not any(module in sys.modules for module in SDKS):
        await asyncio.to_thread(import_likely)


def import_likely() -> None:
    """Import the SDKs that are likely to be used, and the modules of their first call. Failures are
    left to that call.
    """
    import_providers(likely_sdks())


def import_providers(keys: Sequence[str]) -> None:
    """Import the modules of the first call of each of these providers. Failures are left to that
    call.
    """
    providers = (partial(_import_provider, key) for key in keys)
    steps: list[Callable[[], object]] = [*providers, tls_context, load_list, _import_network]
    for load in steps:
        try:
            load()
        except Exception as error:
            logger.debug("imports for the first run failed: %s", error)


def _import_network() -> None:
    """Use a network library once, which imports its part for asyncio."""
    import_module("anyio").run(asyncio.sleep, 0)


def _import_provider(key: str) -> None:
    provider = provider_for(Agent(), provider=key, api_type="chat")  # perdure's own part
    if sdk := getattr(provider, "sdk", None):
        import_module(sdk.module)


def likely_sdks() -> list[str]:
    """Return the SDKs whose key is set, by provider name. Without a key, an idle worker saves the
    33 MB of an SDK.
    """
    return [module for module, keys in SDKS.items() if any(map(os.environ.get, keys))]
