"""Calls of models and tools that need a credential: without it they are left to other workers, or fail in their way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ..agent import Agent
from ..errors import ModelError
from ..messages import ModelReply
from ..protocol.activities import Offer
from .credentials import CredentialError, Credentials, UnknownCredentialError
from .offered import refusal
from .run_cache import KnownRun


async def ask_with_credentials(
    credentials: Credentials, run: KnownRun, offer: Offer | None, ask: Callable[[Agent], Awaitable[ModelReply]]
) -> ModelReply:
    """What `ask` gives for the run's agent with its secrets, asked once more where the provider refuses an old one.

    Raises the ApplicationError that leaves the call to other workers, ModelError, and what `ask` raises.
    """
    try:
        return await ask(await _for_model(credentials, run, offer))
    except ModelError as error:
        if error.kind != "authentication" or not credentials.forget(run):
            raise
    return await ask(await _for_model(credentials, run, offer))


async def agent_for_tool(credentials: Credentials, run: KnownRun, name: str, offer: Offer | None) -> Agent:
    """The run's agent, as this function of a tool of its can be called.

    Raises the ApplicationError that leaves the call to other workers, and CredentialError.
    """
    try:
        return await credentials.for_tool(run, name)
    except UnknownCredentialError as error:
        raise refusal(error.lacking(), offer) from None


async def _for_model(credentials: Credentials, run: KnownRun, offer: Offer | None) -> Agent:
    try:
        return await credentials.for_model(run)
    except UnknownCredentialError as error:
        raise refusal(error.lacking(), offer) from None
    except CredentialError as error:
        model = run.agent.model
        provider = model.provider_key if model else "perdure"
        raise ModelError(str(error), kind="timeout" if error.is_late else "connection", provider=provider) from None
