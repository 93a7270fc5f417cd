"""Builders of scripted replies: what the model says, and the tools that it asks for."""

from __future__ import annotations

import json
from typing import Any, overload

from ..messages import ToolCall
from .script import ScriptedReply


def says(text: str, **more: Any) -> ScriptedReply:
    """A reply that ends the run with `text`; `more` are further fields of `ScriptedReply`."""
    return ScriptedReply(text=text, **more)


@overload
def asks(tool: str, id: str = "", /, **arguments: Any) -> ScriptedReply: ...


@overload
def asks(*calls: ToolCall, **more: Any) -> ScriptedReply: ...


def asks(*calls: Any, **named: Any) -> ScriptedReply:
    """A reply that asks for tools: `asks("look", at="sky")`, or `asks(call("look", at="sky"), call("listen"))`.

    With the name of one tool, the named arguments are that call's. With calls, they are further fields of
    `ScriptedReply`, such as `text`.
    """
    if calls and isinstance(calls[0], str):
        return ScriptedReply(tool_calls=[call(*calls, **named)])
    return ScriptedReply(tool_calls=list(calls), **named)


def call(tool: str, id: str = "", /, **arguments: Any) -> ToolCall:
    """One tool call, with the id `call_TOOL` unless another one is given.

    Give ids where one reply asks for the same tool twice. For arguments that are not a JSON object, make a
    `ToolCall`: it takes the text that the model writes.
    """
    return ToolCall(id=id or f"call_{tool}", name=tool, arguments=json.dumps(arguments))
