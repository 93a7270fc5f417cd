"""The model of an in-process run, a list of replies or a function; and its tools without
threads.
"""

from __future__ import annotations

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
from ..providers.prompted.call import PromptedCall
from ..providers.structured import read_answer
from ..providers.tool_call_text import Call
from .script import ScriptedReply

Reply = ScriptedReply | ModelReply
ModelFunction = Callable[[Agent, list[Message]], Reply | Awaitable[Reply]]
"""Gets the agent (without tools where it may not call any) and the conversation. May raise
`ModelError`."""

Model = ModelFunction | Sequence[Reply | ModelError]
"""A function, or the outcomes of the model calls, one for each attempt; a `ModelError` is
raised."""

PROVIDER = "in process"


def model_function(model: Model) -> ModelFunction:
    """Return the model as a function."""
    return model if callable(model) else _Player(model)


class _Player:
    """Returns the replies of a list in order."""

    def __init__(self, replies: Sequence[Reply | ModelError]) -> None:
        self._replies = replies
        self._calls = 0

    def __call__(self, agent: Agent, messages: list[Message]) -> Reply:
        self._calls += 1
        if self._calls > len(self._replies):
            text = (
                f"the script has {len(self._replies)} replies, and this is model call {self._calls}"
            )
            raise ModelError(text, kind="bad_request", provider=PROVIDER)
        reply = self._replies[self._calls - 1]
        if isinstance(reply, ModelError):
            raise reply
        return reply


def read_reply(agent: Agent, reply: ScriptedReply) -> ModelReply:
    """Return the reply as a provider reads it from a response. Raises `ModelError` for a reply
    scripted to fail.

    Tokens that the script does not set are 0; fields that only HTTP has are ignored.
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
        raise error_from_http(
            reply.status, reply.headers, reply.error, provider=PROVIDER, fallback=text
        )


def _usage(reply: ScriptedReply) -> Usage:
    sent, written = reply.input_tokens or 0, reply.output_tokens or 0
    cached = min(reply.cached_input_tokens, sent)
    return Usage(
        input_tokens=sent,
        output_tokens=written,
        total_tokens=sent + written,
        cached_input_tokens=cached,
    )


def prompted_call(agent: Agent, calling: Calling, options: RunOptions) -> PromptedCall | None:
    """Return the call that describes its tools in the prompt; None for any other."""
    if not calling.prompted:
        return None
    ids = f"call-{calling.iteration}"
    return PromptedCall(
        agent, calling.prompted, step=calling.step, max_steps=options.max_iterations, ids=ids
    )


def compaction(compactor: Any, dropped: Sequence[Message]) -> tuple[Agent, list[Message]]:
    """Return the summarising agent and its messages. Raises the errors of `load` and `prepare`."""
    agent = compactor if isinstance(compactor, Agent) else load(compactor)
    return agent, prepare(agent, {"conversation": conversation_text(dropped)})
