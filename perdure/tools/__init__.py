"""Tools: Python functions that a model may call, from their declaration to the result that the model reads."""

from .binding import apply_bindings, bind_tools
from .context import ToolContext
from .decorator import tool
from .kind import (
    Asking,
    KindCall,
    Offering,
    OutcomeUnknown,
    RunStart,
    ToolKind,
    ToolOfferError,
    ToolUnavailable,
    clear_tool_handlers,
    clear_tools,
    get_tool,
    get_tool_handler,
    register_tool,
    register_tool_handler,
)
from .mcp.kind import register_mcp_server

__all__ = [
    "Asking",
    "KindCall",
    "Offering",
    "OutcomeUnknown",
    "RunStart",
    "ToolContext",
    "ToolKind",
    "ToolOfferError",
    "ToolUnavailable",
    "apply_bindings",
    "bind_tools",
    "clear_tool_handlers",
    "clear_tools",
    "get_tool",
    "get_tool_handler",
    "register_mcp_server",
    "register_tool",
    "register_tool_handler",
    "tool",
]
