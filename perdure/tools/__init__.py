"""Tools: Python functions that a model may call, from their declaration to the result that it
gets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # For type checkers; the table below has the same names at runtime.
    from .binding import apply_bindings as apply_bindings
    from .binding import bind_tools as bind_tools
    from .context import ToolContext as ToolContext
    from .decorator import tool as tool
    from .kind import Asking as Asking
    from .kind import KindCall as KindCall
    from .kind import Offering as Offering
    from .kind import OutcomeUnknown as OutcomeUnknown
    from .kind import RunStart as RunStart
    from .kind import ToolKind as ToolKind
    from .kind import ToolOfferError as ToolOfferError
    from .kind import ToolUnavailable as ToolUnavailable
    from .kind import clear_tool_handlers as clear_tool_handlers
    from .kind import clear_tools as clear_tools
    from .kind import get_tool as get_tool
    from .kind import get_tool_handler as get_tool_handler
    from .kind import register_tool as register_tool
    from .kind import register_tool_handler as register_tool_handler
    from .mcp.kind import register_mcp_server as register_mcp_server
else:
    from .._lazy import lazy_names

    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            ".binding": "apply_bindings bind_tools",
            ".context": "ToolContext",
            ".decorator": "tool",
            ".kind": "Asking KindCall Offering OutcomeUnknown RunStart ToolKind ToolOfferError "
            "ToolUnavailable"
            " clear_tool_handlers clear_tools get_tool get_tool_handler register_tool"
            " register_tool_handler",
            ".mcp.kind": "register_mcp_server",
        },
    )
