"""The connections of a worker to its MCP servers: one for each server, credentials and event loop."""

from __future__ import annotations

import asyncio
from threading import Lock
from weakref import WeakKeyDictionary

from .connection import Connection
from .declaration import Server


class Pool:
    """Opens connections when they are needed, and again when they broke. May be used on several event loops."""

    def __init__(self, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self._lock = Lock()
        self._connections: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Server, Connection]] = WeakKeyDictionary()

    def connection(self, server: Server, title: str) -> Connection:
        """The connection of this event loop to the server, which may just be opening."""
        loop = asyncio.get_running_loop()
        with self._lock:
            connections = self._connections.setdefault(loop, {})
        if (known := connections.get(server)) is not None and known.is_usable:
            return known
        for ended in [each for each, connection in connections.items() if not connection.is_usable]:
            del connections[ended]
        connections[server] = Connection(server, title, self._idle_seconds)
        return connections[server]

    async def close(self) -> None:
        """Close all connections, those of this event loop before this returns."""
        with self._lock:
            everything = list(self._connections.items())
            self._connections.clear()
        for loop, connections in everything:
            if loop is asyncio.get_running_loop():
                for connection in connections.values():
                    connection.close()
                await asyncio.gather(*(connection.closed() for connection in connections.values()))
            elif not loop.is_closed():
                for connection in connections.values():
                    loop.call_soon_threadsafe(connection.close)
