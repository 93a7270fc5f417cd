"""One attempt of one model call: messages → wire format → SDK → reply; and its credentials."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import cast
from urllib.parse import urlsplit

from pydantic_core import PydanticSerializationError

from ..agents import Agent
from ..arguments import deeper_than
from ..breakers import Breaker, BreakerIsOpen, ServerRefusal, breakers
from ..errors import ModelError, ModelErrorKind
from ..json_types import JsonObject, JsonView
from ..messages import Message, ModelReply
from ..options import RunOptions
from ..payloads.failures import MAX_RESULT_BYTES, size_of
from ..protocol.activities import Offer
from ..providers.base import ALONE, CallSeries, Delta, ModelCallOptions, Provider, ignore
from ..providers.memo import Unchanging
from ..providers.outgoing import with_unique_ids
from ..providers.prices import Prices
from ..providers.registry import provider_for
from ..redaction import get_logger, redact, redactor
from ..text import bounded_text, valid_json, valid_text
from ..tools.user_loop import UserLoop
from .credentials import CredentialError, Credentials, UnknownCredentialError
from .failures import refusal
from .heartbeat import Heartbeat
from .model_attempt import ModelAttempt
from .run_cache import KnownRun

_log = get_logger("perdure.runs")

MAX_DEPTH = 100
"""Levels of nesting. Payload converters refuse 200, and a reply is recorded inside other values."""


async def ask_model(
    agent: Agent,
    messages: Sequence[Message],
    options: RunOptions,
    heart: Heartbeat,
    *,
    with_tools: bool = True,
    loop: UserLoop | None = None,
    stand_in: Provider | None = None,
    series: CallSeries = ALONE,
    attempt: ModelAttempt | None = None,
) -> ModelReply:
    """Return the reply of the model, or of a `stand_in`; `heart` streams it.

    A client that the user has registered runs on `loop`, as tools do; perdure's own clients run on
    the running loop.

    Raises `ModelError`, whose text contains no secret, and `InvokerError` for an unknown provider
    or API.
    """
    try:
        calls_on = loop if _is_registered(agent) else None
        provider = stand_in or provider_for(agent)
        return await _ask(
            provider,
            agent,
            messages,
            options,
            heart,
            calls_on,
            attempt,
            series,
            with_tools=with_tools,
        )
    except ModelError as error:
        error.message = redact(error.message, agent)
        error.request_id = error.request_id and redact(error.request_id, agent)
        error.model = error.model or (agent.model.id if agent.model else None)
        raise


async def _ask(
    provider: Provider,
    agent: Agent,
    messages: Sequence[Message],
    options: RunOptions,
    heart: Heartbeat,
    loop: UserLoop | None,
    attempt: ModelAttempt | None,
    series: CallSeries,
    *,
    with_tools: bool,
) -> ModelReply:
    thoughts: list[str] = attempt.thoughts if attempt else []

    def on_delta(delta: Delta) -> None:
        text = valid_text(delta.text)
        heart.add(delta.kind, text)
        if delta.kind == "thinking":
            thoughts.append(text)

    try:
        request = provider.to_request(agent, Unchanging(messages), may_call_tools=with_tools)
    except ValueError as error:
        raise ModelError(
            bounded_text(str(error)), kind="unsupported", provider=provider.key
        ) from error
    told = on_delta if options.stream else ignore
    how = ModelCallOptions(
        options.llm_timeout, options.stream, told, options.max_answer_bytes, series
    )
    call = _call if loop is None else partial(_call_on, loop)
    response = await call(provider, agent, request, how, attempt)
    # In a thread: checking a long answer takes seconds, and heartbeats must continue.
    reply = (
        await asyncio.to_thread(provider.reply, agent, response)
        if agent.outputs
        else provider.reply(agent, response)
    )
    reply.message = with_unique_ids(reply.message, messages)
    reply.usage = reply.usage.plausible()
    reply.thinking = "".join(thoughts)
    # Text by the provider itself, unlike the model's text.
    for name in ("finish_reason", "model", "response_id"):
        setattr(reply, name, (told := getattr(reply, name)) and redact(told, agent))
    reply.warnings = [redact(warning, agent) for warning in reply.warnings]
    if options.raw:
        reply.raw = response
    # A server of a third party may send back the key it got.
    return _recordable(redactor(agent).value(reply), provider)


async def _call(
    provider: Provider,
    agent: Agent,
    request: JsonView,
    how: ModelCallOptions,
    attempt: ModelAttempt | None,
) -> JsonObject:
    """Return the provider's response. While its server refuses all calls, this call waits together
    with the others.
    """
    if attempt is None:
        return await provider.call(agent, request, how)
    breaker = _breaker_of(provider, agent)

    async def on_wait(refusal: ServerRefusal, until: float) -> None:
        await attempt.wait_for_server(
            refusal.kind, f"{refusal.text}; {breaker.waiting} calls wait", until
        )

    try:
        async with breaker.call(attempt.run, how.timeout / 2, _refusal_in, on_wait) as waited:
            attempt.go_on_after_wait()
            left = replace(how, timeout=how.timeout - waited)
            return await provider.call(agent, request, left)
    except BreakerIsOpen as error:
        text = f"{error}; calls of {breaker.name} wait until it answers again"
        kind, after = cast(ModelErrorKind, error.kind), error.seconds
        raise ModelError(text, kind=kind, provider=provider.key, retry_after=after) from None


async def _call_on(
    loop: UserLoop,
    provider: Provider,
    agent: Agent,
    request: JsonView,
    how: ModelCallOptions,
    attempt: ModelAttempt | None,
) -> JsonObject:
    """Make the call on that loop; stream its pieces on this one."""
    here = asyncio.get_running_loop()

    def on_delta(delta: Delta) -> None:
        here.call_soon_threadsafe(how.on_delta, delta)

    call = partial(_call, provider, agent, request, replace(how, on_delta=on_delta), attempt)
    response: JsonObject = (await loop.end_of(call, "model call", is_async=True)).result()
    return response


def _breaker_of(provider: Provider, agent: Agent) -> Breaker:
    """Return the breaker of a model's connection; the server may still accept calls with another
    key or model.
    """
    model = agent.model
    connection = model.connection if model else None
    endpoint, key = (getattr(connection, name, None) or "" for name in ("endpoint", "api_key"))
    id, server = (model and model.id) or "", urlsplit(str(endpoint)).netloc.rpartition("@")[2]
    identity = blake2b(repr((endpoint, key)).encode(), digest_size=16).hexdigest()
    name = f"{provider.key}/{id}" + (f" at {server}" if server else "")
    return breakers.of((provider.key, id, identity), name)


_REFUSALS = frozenset({"rate_limit", "overloaded", "server", "connection"})
"""Kinds of errors that concern the server, not the call."""


def _refusal_in(error: Exception) -> ServerRefusal | None:
    if isinstance(error, ModelError) and error.kind in _REFUSALS:
        return ServerRefusal(error.kind, error.account, error.retry_after)
    return None


def _is_registered(agent: Agent) -> bool:
    connection = agent.model.connection if agent.model else None
    return connection is not None and connection.kind == "reference"


def _recordable(reply: ModelReply, provider: Provider) -> ModelReply:
    """Return the reply with valid text. Raises ModelError if it is too large or too deeply nested
    to be recorded.
    """
    try:
        size = size_of(reply)
    except PydanticSerializationError:
        reply, size = _valid_reply(reply, provider)
    if size > MAX_RESULT_BYTES and reply.thinking:
        # Only readers miss it: the thinking that the provider needs again is in the message.
        reply.thinking = ""
        size = size_of(reply)
    if size > MAX_RESULT_BYTES:
        text = (
            f"the model's reply is too large to be recorded: {size} bytes, at most "
            f"{MAX_RESULT_BYTES} are possible"
        )
        raise ModelError(text, kind="invalid_response", provider=provider.key)
    # Only values that the provider wrote as JSON can be nested.
    nested = [value for value in (reply.message.metadata, reply.output, reply.raw) if value]
    if nested and deeper_than(nested, MAX_DEPTH):
        text = f"the model's reply is nested deeper than {MAX_DEPTH} levels"
        raise ModelError(text, kind="invalid_response", provider=provider.key)
    return reply


def _valid_reply(reply: ModelReply, provider: Provider) -> tuple[ModelReply, int]:
    try:
        repaired = ModelReply.model_validate(valid_json(reply.model_dump()))
        return repaired, size_of(repaired)
    except (ValueError, RecursionError) as error:
        text = f"the model's reply has no JSON form: {error}"
        raise ModelError(text, kind="invalid_response", provider=provider.key) from error


def price_reply(reply: ModelReply, agent: Agent, prices: Prices) -> ModelReply:
    """Return the reply with its cost, if known."""
    reply.cost_usd = prices.of_call(agent, reply.usage, reply.model)
    return reply


async def ask_with_credentials(
    credentials: Credentials,
    run: KnownRun,
    offer: Offer | None,
    ask: Callable[[Agent], Awaitable[ModelReply]],
) -> ModelReply:
    """Return the reply of `ask` with the run's agent and its secrets; ask again with new secrets
    after a refusal.

    Raises the ApplicationError that leaves the call to other workers, ModelError, and the errors of
    `ask`.
    """
    agent = await _for_model(credentials, run, offer)
    try:
        return await ask(agent)
    except ModelError as error:
        if error.kind != "authentication" or not credentials.forget(run, agent):
            raise
    return await ask(await _for_model(credentials, run, offer))


async def agent_for_tool(
    credentials: Credentials, run: KnownRun, name: str, offer: Offer | None
) -> Agent:
    """Return the run's agent with the secrets of the tool that has this function.

    Raises the ApplicationError that leaves the call to other workers, and CredentialError.
    """
    try:
        return await credentials.for_tool(run, name)
    except UnknownCredentialError as error:
        raise refusal(error.lack(), offer) from None


async def _for_model(credentials: Credentials, run: KnownRun, offer: Offer | None) -> Agent:
    try:
        return await credentials.for_model(run)
    except UnknownCredentialError as error:
        raise refusal(error.lack(), offer) from None
    except CredentialError as error:
        model = run.agent.model
        provider = model.provider_key if model else "perdure"
        raise ModelError(
            str(error), kind="timeout" if error.is_late else "connection", provider=provider
        ) from None
