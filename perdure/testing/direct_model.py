"""The model of a run in this process, a list of replies or a function; its tools, where they have no threads."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ..activities.hooks import conversation_text
from ..agents import Agent
from ..errors import ModelError
from ..loop.effects import Calling
from ..messages import Message, ModelReply, Usage
from ..options import RunOptions
from ..prompty.load import load
from ..prompty.prepare import prepare
from ..providers.ends import Answer, made_calls, require_reply
from ..providers.errors import error_from_http
from ..providers.prices import Prices, PriceSource
from ..providers.prompted.call import PromptedCall
from ..providers.structured import read_answer
from ..providers.tool_call_text import Call
from ..tools.handlers import GivenTools, collect_tools
from ..tools.signature import is_async
from .script import ScriptedReply

Reply = ScriptedReply | ModelReply
ModelFunction = Callable[[Agent, list[Message]], Reply | Awaitable[Reply]]
"""Gets the agent (without tools where the model may call none) and the conversation. May raise `ModelError`."""

Model = ModelFunction | Sequence[Reply | ModelError]
"""A function, or the outcomes of the model calls, one for each attempt; a `ModelError` is raised."""

PROVIDER = "in process"


def model_function(model: Model) -> ModelFunction:
    """Return the model as a function."""
    return model if callable(model) else _Player(model)


def with_prices(model: ModelFunction, prices: PriceSource | None) -> ModelFunction:
    """Return the same model, whose replies have what they cost: their own cost, or else what the prices say."""
    if prices is None:
        return model
    known = Prices(prices)

    async def ask_and_price(agent: Agent, messages: list[Message]) -> ModelReply:
        reply = model(agent, messages)
        if not isinstance(reply, ModelReply | ScriptedReply):
            reply = await reply
        if isinstance(reply, ScriptedReply):
            await asyncio.sleep(reply.delay)
            reply = read_reply(agent, reply)
        if reply.cost_usd is None:
            cost = await known.of_call(agent, reply.usage, reply.model)
            reply = reply.model_copy(update={"cost_usd": cost})
        return reply

    return ask_and_price


class _Player:
    """Gives the replies of a list in order."""

    def __init__(self, replies: Sequence[Reply | ModelError]) -> None:
        self._replies = replies
        self._calls = 0

    def __call__(self, agent: Agent, messages: list[Message]) -> Reply:
        self._calls += 1
        if self._calls > len(self._replies):
            text = f"the script has {len(self._replies)} replies, and this is model call {self._calls}"
            raise ModelError(text, kind="bad_request", provider=PROVIDER)
        reply = self._replies[self._calls - 1]
        if isinstance(reply, ModelError):
            raise reply
        return reply


def read_reply(agent: Agent, reply: ScriptedReply) -> ModelReply:
    """Reply as a provider reads it from a response. Raises `ModelError` when the script says that the call fails.

    Tokens that the script does not count are 0; what only HTTP has is ignored.
    """
    _raise_fault(reply)
    asked = [Call(call.id, call.name, call.arguments) for call in reply.tool_calls]
    answer = Answer(reply.text, asked, _usage(reply), reply.finish_reason)
    ended = require_reply(answer, PROVIDER)
    calls = made_calls(answer, ended)
    is_structured = agent.outputs and not calls
    output, faults = read_answer(reply.text, agent.outputs or []) if is_structured else (None, [])
    return ModelReply(
        message=Message.assistant(reply.text, calls),
        usage=answer.usage,
        finish_reason=reply.finish_reason,
        ended=ended,
        output=output,
        faults=faults,
        thinking=reply.thinking or "",
    )


def _raise_fault(reply: ScriptedReply) -> None:
    if reply.drop_after is not None:
        raise ModelError("the script drops the connection", kind="connection", provider=PROVIDER)
    if reply.error is not None or reply.status != 200:
        text = f"scripted error {reply.status}"
        raise error_from_http(reply.status, reply.headers, reply.error, provider=PROVIDER, fallback=text)


def _usage(reply: ScriptedReply) -> Usage:
    sent, written = reply.input_tokens or 0, reply.output_tokens or 0
    cached = min(reply.cached_input_tokens, sent)
    return Usage(input_tokens=sent, output_tokens=written, total_tokens=sent + written, cached_input_tokens=cached)


def prompted_call(agent: Agent, calling: Calling, options: RunOptions) -> PromptedCall | None:
    """Return the call, where the model is told of its tools in the prompt; None for any other."""
    if not calling.prompted:
        return None
    ids = f"call-{calling.iteration}"
    return PromptedCall(agent, calling.prompted, step=calling.step, max_steps=options.max_iterations, ids=ids)


def compaction(compactor: Any, dropped: Sequence[Message]) -> tuple[Agent, list[Message]]:
    """Return the agent that summarises, and what it is told. Raises what `load` and `prepare` raise."""
    agent = compactor if isinstance(compactor, Agent) else load(compactor)
    return agent, prepare(agent, {"conversation": conversation_text(dropped)})


def without_threads(tools: GivenTools) -> dict[str, Callable[..., Any]]:
    """Return the tools as async functions, by name, which are called on the event loop.

    Raises ConfigurationError when two tools have one name.
    """
    return {name: tool if is_async(tool) else _direct(tool) for name, tool in collect_tools(tools).items()}


def _direct(tool: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(tool)
    async def call(*arguments: Any, **named: Any) -> Any:
        value = tool(*arguments, **named)
        return await value if inspect.isawaitable(value) else value

    return call
