"""One attempt of one model call: from messages to the provider's wire format, through its SDK, and back."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

from ..agent import Agent
from ..errors import ModelError
from ..messages import Message, ModelReply
from ..options import RunOptions
from ..payloads.limits import MAX_RESULT_BYTES, size_of
from ..providers.base import Delta, Provider
from ..providers.memo import Unchanging
from ..providers.registry import provider_for
from ..redaction import redact, redactor
from .heartbeat import Heart


async def ask_model(
    agent: Agent, messages: Sequence[Message], options: RunOptions, heart: Heart, *, with_tools: bool = True
) -> ModelReply:
    """The model's reply; `heart` tells what it streams.

    Raises `ModelError`, whose text contains no secret, and `InvokerError` for a provider or an API that does not exist.
    """
    try:
        return await _ask(agent, messages, options, heart, with_tools=with_tools)
    except ModelError as error:
        error.message = redact(error.message, agent)
        error.request_id = error.request_id and redact(error.request_id, agent)
        raise


async def _ask(
    agent: Agent, messages: Sequence[Message], options: RunOptions, heart: Heart, *, with_tools: bool
) -> ModelReply:
    provider = provider_for(agent)
    request = provider.to_request(agent, Unchanging(messages), may_call_tools=with_tools)

    def on_delta(delta: Delta) -> None:
        heart.add(delta.kind, delta.text)

    response = await provider.call(
        agent,
        request,
        timeout=options.llm_timeout,
        on_delta=on_delta if options.stream else None,
        stream=options.stream,
    )
    reply = provider.reply(agent, response)
    if options.raw:
        reply.raw = redactor(agent).value(response)
    return _bounded(reply, provider)


def _bounded(reply: ModelReply, provider: Provider) -> ModelReply:
    size = size_of(reply)
    if size > MAX_RESULT_BYTES:
        raise ModelError(
            f"the model's reply is too large to be recorded: {size} bytes, at most {MAX_RESULT_BYTES} are possible",
            kind="invalid_response",
            provider=provider.key,
        )
    return reply


async def summarize(compactor: Agent | str | PathLike[str], text: str, options: RunOptions) -> str:
    """The summary that a `.prompty` agent makes of a conversation's text (its input `conversation`).

    Raises what `load`, `prepare` and `ask_model` raise.
    """
    # Only compactors of this kind need templates: a worker without one imports neither Jinja2 nor PyYAML.
    from ..prompty.load import load
    from ..prompty.prepare import prepare

    agent = compactor if isinstance(compactor, Agent) else load(compactor)
    messages = prepare(agent, {"conversation": text})
    reply = await ask_model(agent, messages, RunOptions(llm_timeout=options.llm_timeout), Heart(), with_tools=False)
    return reply.message.text
