"""The model providers, one file for each wire format. Only activities call them; only a call
imports an SDK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # For type checkers; at runtime, the table below defines the same names.
    from .base import Delta as Delta
    from .base import ModelCallOptions as ModelCallOptions
    from .base import Provider as Provider
    from .base import StreamAssembler as StreamAssembler
    from .clients import clear_connections as clear_connections
    from .clients import close_clients as close_clients
    from .clients import get_connection as get_connection
    from .clients import register_connection as register_connection
    from .dialects import WireDialect as WireDialect
    from .dialects import register_dialect as register_dialect
    from .registry import format_tool_messages as format_tool_messages
    from .registry import process_response as process_response
    from .registry import provider_for as provider_for
    from .registry import to_request as to_request
    from .structured import StructuredResult as StructuredResult
    from .structured import cast as cast
else:
    from .._lazy import lazy_names

    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            ".base": "ModelCallOptions Delta Provider StreamAssembler",
            ".clients": "clear_connections close_clients get_connection register_connection",
            ".dialects": "WireDialect register_dialect",
            ".registry": "format_tool_messages process_response provider_for to_request",
            ".structured": "StructuredResult cast",
        },
    )
