"""The model providers, one file for each wire format. Only activities call them; only a call imports an SDK."""

from .base import Delta, Provider, StreamAssembler
from .clients import clear_connections, close_clients, get_connection, register_connection
from .registry import format_tool_messages, process_response, provider_for, to_request
from .structured import StructuredResult, cast

__all__ = [
    "Delta",
    "Provider",
    "StreamAssembler",
    "StructuredResult",
    "cast",
    "clear_connections",
    "close_clients",
    "format_tool_messages",
    "get_connection",
    "process_response",
    "provider_for",
    "register_connection",
    "to_request",
]
