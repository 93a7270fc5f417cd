"""What a worker's tools share, such as a database: opened when the first of them needs it, closed with the worker."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from functools import partial
from typing import Any

from ..errors import ConfigurationError
from ..redaction import get_logger
from .results import describe
from .signature import signature_of
from .user_loop import UserLoop

Factory = Callable[[], Any]
"""Makes a resource: a plain or async function that returns it, or one that yields it and then closes it."""
_log = get_logger("perdure.tools")


class ResourceError(Exception):
    """A resource can't be opened; the text says which and why."""


class Resources:
    """Resources of one worker, by their types. Each is opened once, on the event loop of async tools.

    Raises ConfigurationError for a key that is no class, and for a factory that can't be called.
    """

    def __init__(self, factories: Mapping[type, Factory] | None, loop: UserLoop) -> None:
        self._factories = dict(factories or {})
        self._loop = loop
        self._kept: dict[type, _Kept] = {}
        for kind, factory in self._factories.items():
            if not isinstance(kind, type) or not callable(factory):
                raise ConfigurationError(
                    f"resources[{kind!r}] is {factory!r}: expected a class, and a function without parameters that "
                    "makes an object of it"
                )

    @property
    def types(self) -> tuple[type, ...]:
        """Types of which there is a resource, in the order in which they were given."""
        return tuple(self._factories)

    @property
    def open_ones(self) -> list[str]:
        """Names of those that were opened."""
        return [kind.__name__ for kind in self._kept]

    def parameters(self, function: Callable[..., Any]) -> dict[str, type]:
        """Parameters of a tool function that take a resource, with their types; the model never sees them."""
        if not self._factories:
            return {}
        annotations = {name: each.annotation for name, each in signature_of(function).parameters.items()}
        return {
            name: annotation
            for name, annotation in annotations.items()
            if isinstance(annotation, type) and annotation in self._factories
        }

    async def values(self, types: Collection[type]) -> dict[type, Any]:
        """Return the resources of these types; a `ResourceError` in the place of one that can't be opened.

        One that could not be opened is tried again the next time.
        """
        if not types:
            return {}
        ended = await self._loop.end_of(partial(self._open, types), "opening of resources", is_async=True)
        opened: dict[type, Any] = ended.result()
        return opened

    async def close(self) -> None:
        """Close what was opened, the last one first. On the event loop of async tools."""
        kept, self._kept = self._kept, {}
        for each in reversed(kept.values()):
            await each.close()

    async def _open(self, types: Collection[type]) -> dict[type, Any]:
        found = await asyncio.gather(*(self._value(kind) for kind in types))
        return dict(zip(types, found, strict=True))

    async def _value(self, kind: type) -> Any:
        kept = self._kept.get(kind)
        if kept is None or not kept.is_usable:
            kept = self._kept[kind] = _Kept(kind, self._factories[kind])
        await asyncio.wait([kept.value])
        if kept.value.cancelled():
            return ResourceError(f"the resource {kind.__name__} can't be opened: it was cancelled")
        if error := kept.value.exception():
            return ResourceError(f"the resource {kind.__name__} can't be opened: {describe(error)}")
        return kept.value.result()


class _Kept:
    """One resource, in a task of its own: what is entered in a task may have to be left in the same."""

    def __init__(self, kind: type, factory: Factory) -> None:
        self._kind = kind
        self._factory = factory
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        self.value: asyncio.Future[Any] = self._loop.create_future()
        # In a context of its own: what is opened here serves all calls, and must not take itself for a part of the
        # first one, its activity and its span.
        self._task = self._loop.create_task(
            self._keep(), name=f"resource {kind.__name__}", context=contextvars.Context()
        )

    @property
    def is_usable(self) -> bool:
        """Not when it could not be opened, nor on another loop than the one that it was opened on."""
        failed = self.value.done() and (self.value.cancelled() or self.value.exception() is not None)
        return not failed and self._loop is asyncio.get_running_loop()

    async def close(self) -> None:
        """Close the resource, or give it up while it is being opened."""
        if self._loop is not asyncio.get_running_loop():
            return
        self._closing.set()
        if not self.value.done():
            self._task.cancel()
        await asyncio.wait([self._task])

    async def _keep(self) -> None:
        try:
            async with _enter(self._factory) as value:
                self.value.set_result(value)
                await self._closing.wait()
        except asyncio.CancelledError:
            self.value.cancel()
            raise
        except BaseException as error:  # SystemExit would end the event loop that all tools share.
            if self.value.done():
                _log.exception("The resource %s failed to close", self._kind.__name__)
            else:
                self.value.set_exception(error if isinstance(error, Exception) else RuntimeError(describe(error)))


@contextlib.asynccontextmanager
async def _enter(factory: Factory) -> AsyncIterator[Any]:
    made = _as_context_manager(factory())
    if inspect.isawaitable(made) and not hasattr(made, "__aenter__"):
        made = await made
    if hasattr(made, "__aenter__"):
        async with made as value:
            yield value
    elif isinstance(made, contextlib.AbstractContextManager) and not hasattr(made, "close"):
        with made as value:
            yield value
    else:
        try:
            yield made
        finally:
            await _close_resource(made)


def _as_context_manager(made: Any) -> Any:
    """Generators as context managers: what they yield is the resource, and what follows closes it."""
    if inspect.isasyncgen(made):
        return contextlib.asynccontextmanager(lambda: made)()
    if inspect.isgenerator(made):
        return contextlib.contextmanager(lambda: made)()
    return made


async def _close_resource(resource: Any) -> None:
    close = getattr(resource, "aclose", None) or getattr(resource, "close", None)
    if callable(close):
        closing = close()
        if inspect.isawaitable(closing):
            await closing
