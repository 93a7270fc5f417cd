"""perdure runs LLM agents that outlive the process they run in: `.prompty` files as Temporal workflows."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .agent import Agent
    from .arguments import parse_tool_arguments
    from .client.invoke import invoke_agent, invoke_agent_async
    from .client.tokens import CancellationToken, Steering
    from .errors import (
        ConfigurationError,
        ExecuteError,
        GuardrailError,
        InvokerError,
        LimitExceededError,
        LoadError,
        MaxIterationsError,
        ModelError,
        PayloadTooLargeError,
        RenderError,
        RunCancelled,
        RunError,
        ToolArgumentError,
        ToolNotRegisteredError,
    )
    from .events import RunEvent
    from .guardrails import GuardrailResult, Guardrails
    from .messages import AudioPart, FilePart, ImagePart, Message, Part, TextPart, ToolCall, ToolResult, Usage
    from .options import RunOptions
    from .prompty.load import load, load_dict
    from .prompty.parse import parse
    from .prompty.portable import agent_to_dict
    from .prompty.prepare import prepare, validate_inputs
    from .prompty.render import render
    from .prompty.rendered import Rendered
    from .protocol.run import RunResult, RunStatus
    from .providers.conversion import format_tool_messages, process_response, to_request
    from .tools.binding import bind_tools
    from .tools.context import ToolContext
    from .tools.decorator import tool
    from .trimming import estimate_chars, trim_to_context_window

_HOMES = {
    ".agent": ("Agent",),
    ".arguments": ("parse_tool_arguments",),
    ".client.invoke": ("invoke_agent", "invoke_agent_async"),
    ".client.tokens": ("CancellationToken", "Steering"),
    ".errors": (
        "ConfigurationError",
        "ExecuteError",
        "GuardrailError",
        "InvokerError",
        "LimitExceededError",
        "LoadError",
        "MaxIterationsError",
        "ModelError",
        "PayloadTooLargeError",
        "RenderError",
        "RunCancelled",
        "RunError",
        "ToolArgumentError",
        "ToolNotRegisteredError",
    ),
    ".events": ("RunEvent",),
    ".guardrails": ("GuardrailResult", "Guardrails"),
    ".messages": (
        "AudioPart",
        "FilePart",
        "ImagePart",
        "Message",
        "Part",
        "TextPart",
        "ToolCall",
        "ToolResult",
        "Usage",
    ),
    ".options": ("RunOptions",),
    ".prompty.portable": ("agent_to_dict",),
    ".prompty.load": ("load", "load_dict"),
    ".prompty.parse": ("parse",),
    ".prompty.prepare": ("prepare", "validate_inputs"),
    ".prompty.render": ("render",),
    ".prompty.rendered": ("Rendered",),
    ".providers.conversion": ("format_tool_messages", "process_response", "to_request"),
    ".protocol.run": ("RunResult", "RunStatus"),
    ".tools.binding": ("bind_tools",),
    ".tools.context": ("ToolContext",),
    ".tools.decorator": ("tool",),
    ".trimming": ("estimate_chars", "trim_to_context_window"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Agent",
    "AudioPart",
    "CancellationToken",
    "ConfigurationError",
    "ExecuteError",
    "FilePart",
    "GuardrailError",
    "GuardrailResult",
    "Guardrails",
    "ImagePart",
    "InvokerError",
    "LimitExceededError",
    "LoadError",
    "MaxIterationsError",
    "Message",
    "ModelError",
    "Part",
    "PayloadTooLargeError",
    "RenderError",
    "Rendered",
    "RunCancelled",
    "RunError",
    "RunEvent",
    "RunOptions",
    "RunResult",
    "RunStatus",
    "Steering",
    "TextPart",
    "ToolArgumentError",
    "ToolCall",
    "ToolContext",
    "ToolNotRegisteredError",
    "ToolResult",
    "Usage",
    "__version__",
    "agent_to_dict",
    "bind_tools",
    "estimate_chars",
    "format_tool_messages",
    "invoke_agent",
    "invoke_agent_async",
    "load",
    "load_dict",
    "parse",
    "parse_tool_arguments",
    "prepare",
    "process_response",
    "render",
    "to_request",
    "tool",
    "trim_to_context_window",
    "validate_inputs",
]


def __getattr__(name: str) -> Any:
    # Imported on first use: a worker must not pay for YAML, nor the command line for Temporal.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name], __name__), name)
