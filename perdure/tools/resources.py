"""Resources shared by a worker's tools, such as a database: opened at first use, closed with the
worker.

A resource made from a run's deps serves only runs with equal deps, and is closed when too many
others are open.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from functools import partial
from typing import Any
from weakref import WeakSet

from ..errors import ConfigurationError
from ..redaction import get_logger
from .results import ResourceError, describe
from .signature import MISSING, FunctionParameter, signature_of
from .user_loop import UserLoop

Factory = Callable[..., Any]
"""Makes a resource: a plain or async function that returns it, or one that yields it and then
closes it.

A function with a parameter gets the run's deps, as the parameter's annotated type.
"""
OPENING_SECONDS = 300.0
"""The most time that the opening of a resource takes: then it fails, and the next call tries
again."""
MAX_IDLE = 100
"""The most resources made from deps that stay open; the one idle for longest is closed first. Those
in use stay open, however many."""
Key = tuple[type, str]
"""The type of a resource and, for one made from deps, these as JSON."""
_log = get_logger("perdure.tools")


class Resources:
    """Resources of one worker, by their types. Each is opened once, on the event loop of async
    tools.

    Raises ConfigurationError for a key that is not a class, and for a factory that can't be called.
    """

    def __init__(
        self,
        factories: Mapping[type, Factory] | None,
        loop: UserLoop,
        *,
        max_idle: int = MAX_IDLE,
        opening_seconds: float = OPENING_SECONDS,
    ) -> None:
        self._factories = dict(factories or {})
        self._loop = loop
        self._max_idle = max_idle
        self._opening_seconds = opening_seconds
        self._kept: dict[Key, _Kept] = {}
        for kind, factory in self._factories.items():
            if not isinstance(kind, type) or not callable(factory):
                raise ConfigurationError(
                    f"resources[{kind!r}] is {factory!r}: expected a class, and a function that "
                    "makes an object of it, without parameters or with one, which is given the "
                    "run's deps"
                )

    @property
    def types(self) -> tuple[type, ...]:
        """Types that have a resource, in the given order."""
        return tuple(self._factories)

    @property
    def open_ones(self) -> list[str]:
        """Names of the opened resources."""
        return [kind.__name__ for kind, _ in self._kept]

    def parameters(self, function: Callable[..., Any]) -> dict[str, type]:
        """Parameters of a tool function that take a resource, with their types; the model never
        sees them.
        """
        if not self._factories:
            return {}
        annotations = {
            name: each.annotation for name, each in signature_of(function).parameters.items()
        }
        return {
            name: annotation
            for name, annotation in annotations.items()
            if isinstance(annotation, type) and annotation in self._factories
        }

    async def values(self, types: Collection[type], deps: Any = None) -> dict[type, Any]:
        """Return the resources of these types for a run with these deps; a `ResourceError` in place
        of one that can't be opened.

        A failed one is tried again the next time. A resource made from deps stays open at least
        while the returned value is referenced.
        """
        if not types:
            return {}
        opening = partial(self._open, types, deps)
        title = " and ".join(["opening of resources", *map(_title_of, types)])
        ended = await self._loop.end_of(opening, title, is_async=True)
        opened: dict[type, Any] = ended.result()
        return opened

    async def close(self) -> None:
        """Close the opened resources, the last one first. Call it on the event loop of async
        tools.
        """
        kept, self._kept = self._kept, {}
        for each in reversed(kept.values()):
            await each.close()

    async def _open(self, types: Collection[type], deps: Any) -> dict[type, Any]:
        opened = _Opened()
        found = await asyncio.gather(*(self._value(kind, deps, opened) for kind in types))
        opened.update(zip(types, found, strict=True))
        return opened

    async def _value(self, kind: type, deps: Any, opened: _Opened) -> Any:
        factory = self._factories[kind]
        if (parameter := _parameter_for_deps(factory)) is None:
            kept = self._keep((kind, ""), factory)
        elif deps is None:
            return ResourceError(
                f"the resource {kind.__name__} is made of the run's deps: start the run with deps=…"
            )
        else:
            made = partial(_made_of, factory, parameter, deps)
            kept = self._keep((kind, json.dumps(deps, sort_keys=True)), made)
        kept.users.add(opened)
        await asyncio.wait([kept.value])
        if kept.value.cancelled():
            return ResourceError(f"the resource {kind.__name__} can't be opened: it was cancelled")
        if error := kept.value.exception():
            return ResourceError(f"the resource {kind.__name__} can't be opened: {describe(error)}")
        return kept.value.result()

    def _keep(self, key: Key, factory: Factory) -> _Kept:
        kept = self._kept.get(key)
        if kept is None or not kept.is_usable:
            self._kept = {other: each for other, each in self._kept.items() if not each.has_ended}
            kept = _Kept(key[0], factory, self._opening_seconds)
            self._kept[key] = kept
        if key[1]:
            self._kept[key] = self._kept.pop(key)  # The last one is the one that was needed last.
            of_deps = [each for (_, deps), each in self._kept.items() if deps and not each.is_over]
            idle = [each for each in of_deps if each is not kept and not each.users]
            for other in idle[: max(0, len(of_deps) - self._max_idle)]:
                other.let_go()
        return kept


def _parameter_for_deps(factory: Factory) -> FunctionParameter | None:
    """Return the parameter for the run's deps: the only one without a default; None without one."""
    signature = signature_of(factory.__init__ if isinstance(factory, type) else factory)  # type: ignore[misc]
    needed = [each for each in signature.parameters.values() if each.default is MISSING]
    return needed[0] if len(needed) == 1 else None


def _title_of(kind: type) -> str:
    """Return the name of the task of a resource; see `UserLoop.end_of`."""
    return f"resource {kind.__name__}"


def _made_of(factory: Factory, parameter: FunctionParameter, deps: Any) -> Any:
    return factory(parameter.of_json(deps))


class _Opened(dict[type, Any]):
    """The resources used by one call."""

    __hash__ = object.__hash__  # type: ignore[assignment]


class _Kept:
    """One resource, in its own task: a context entered in a task may have to be left in the same
    task.
    """

    def __init__(self, kind: type, factory: Factory, opening_seconds: float) -> None:
        self._kind = kind
        self._factory = factory
        self._opening_seconds = opening_seconds
        self.users: WeakSet[_Opened] = WeakSet()
        self.is_over = False
        """Whether it is closed, or about to be."""
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        self.value: asyncio.Future[Any] = self._loop.create_future()
        # In a context of its own: the resource serves all calls, so it must not inherit the
        # activity and the span of the first one.
        self._task = self._loop.create_task(
            self._keep(), name=_title_of(kind), context=contextvars.Context()
        )

    @property
    def is_usable(self) -> bool:
        """Whether calls on this event loop may use it: not after a failed opening."""
        failed = self.value.done() and (
            self.value.cancelled() or self.value.exception() is not None
        )
        return not failed and not self.is_over and self._loop is asyncio.get_running_loop()

    @property
    def has_ended(self) -> bool:
        return self._task.done()

    def let_go(self) -> None:
        """Begin to close the unused resource, or abandon its opening; does not wait."""
        self.is_over = True
        self._closing.set()
        if not self.value.done():
            self._task.cancel()

    async def close(self) -> None:
        """Close the resource, or abandon its opening."""
        if self._loop is not asyncio.get_running_loop():
            return
        self.let_go()
        await asyncio.wait([self._task])

    async def _keep(self) -> None:
        seconds = self._opening_seconds
        deadline = asyncio.timeout(seconds)
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with deadline:
                    value = await stack.enter_async_context(_enter(self._factory))
                self.value.set_result(value)
                await self._closing.wait()
                self.is_over = True
        except asyncio.CancelledError:
            self.value.cancel()
            raise
        except BaseException as error:  # SystemExit would end the event loop that all tools share.
            if self.value.done():
                _log.error(
                    "The resource %s failed to close: %s", self._kind.__name__, describe(error)
                )
            else:
                if deadline.expired():
                    error = TimeoutError(f"it was not open within {seconds:g} s")
                self.value.set_exception(
                    error if isinstance(error, Exception) else RuntimeError(describe(error))
                )
                # Whether or not a call still waits for it, asyncio need not log it.
                self.value.exception()
        finally:
            self.is_over = True


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
    """Return generators as context managers: they yield the resource, and then close it."""
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
