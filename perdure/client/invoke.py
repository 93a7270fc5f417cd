"""One call that runs an agent to its end, as the Prompty pages write it (§9, §13.7)."""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from os import PathLike
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ..agent import Agent
from ..errors import ConfigurationError
from ..events import RunEvent
from ..guardrails import Compactor, Guardrails
from ..messages import Message
from ..options import RunOptions
from ..worker import create_worker
from .connection import connect, environment_names_a_server
from .embedded.server import LocalServer
from .handle import RunHandle
from .runs import start_run
from .tokens import CancellationToken, Steering

logger = logging.getLogger("perdure")

EventCallback = Callable[[str, dict[str, Any]], None]
Tools = Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any]]

OWN_HOOKS = "invoke_agent"
"""The name under which the call's own worker has the given guardrails and compactor."""


async def invoke_agent_async(
    path_or_agent: Agent | str | PathLike[str],
    inputs: Mapping[str, Any] | None = None,
    tools: Tools | None = None,
    *,
    max_iterations: int = 10,
    max_llm_retries: int = 3,
    on_event: EventCallback | None = None,
    cancel: CancellationToken | None = None,
    context_budget: int | None = None,
    guardrails: Guardrails | None = None,
    steering: Steering | None = None,
    parallel_tool_calls: bool = False,
    raw: bool = False,
    compactor: Compactor | None = None,
    messages: Sequence[Message | Mapping[str, Any]] | None = None,
    client: Client | None = None,
    id: str | None = None,
    **more: Any,
) -> Any:
    """Run an agent and return its processed result.

    A real, durable run: on the server that the environment names, else on the embedded one, with a worker
    in this process that has the given tools, guardrails and compactor. `more` are further `RunOptions`.

    `on_event(type, data)` gets every event in order; what it raises is logged. `messages` starts from a
    conversation instead of the prompt (§14). Raises what `start_run` and `RunHandle.result` raise.
    """
    options = RunOptions(
        max_iterations=max_iterations,
        max_llm_retries=max_llm_retries,
        context_budget=context_budget,
        parallel_tool_calls=parallel_tool_calls,
        raw=raw,
        guardrails=OWN_HOOKS if guardrails else None,
        compactor=OWN_HOOKS if compactor else None,
        **more,
    )
    task_queue = f"perdure-{OWN_HOOKS}-{secrets.token_hex(6)}"
    async with _server(client) as connected:
        worker = create_worker(
            connected,
            task_queue=task_queue,
            tools=tools or (),
            guardrails={OWN_HOOKS: guardrails} if guardrails else None,
            compactors={OWN_HOOKS: compactor} if compactor else None,
        )
        run = await start_run(
            connected, path_or_agent, inputs, task_queue=task_queue, id=id, options=options, messages=messages
        )
        async with _reaching(run, cancel, steering), worker:
            if on_event is not None:
                async for event in run.stream():
                    _call(on_event, event)
            return (await run.result()).output


def invoke_agent(
    path_or_agent: Agent | str | PathLike[str],
    inputs: Mapping[str, Any] | None = None,
    tools: Tools | None = None,
    **options: Any,
) -> Any:
    """`invoke_agent_async`, waited for. May be called in a thread whose event loop is running."""
    return _wait(invoke_agent_async(path_or_agent, inputs, tools, **options))


invoke_agent.__signature__ = inspect.signature(invoke_agent_async)  # type: ignore[attr-defined]


@asynccontextmanager
async def _server(client: Client | None) -> AsyncIterator[Client]:
    if client is not None:
        yield client
    elif environment_names_a_server():
        yield await connect()
    else:
        yield await _embedded_server()


_embedded = LocalServer()
"""Started by the first call that needs it; it goes on until this process ends, so that further calls find it."""


async def _embedded_server() -> Client:
    if not _embedded.is_started:
        await _embedded.start()
    try:
        return await _embedded.connect()
    except ConfigurationError:
        # It died, or was ended by someone: its database is still there, and so are its runs.
        _embedded.leave()
        await _embedded.start()
        return await _embedded.connect()


@asynccontextmanager
async def _reaching(run: RunHandle, cancel: CancellationToken | None, steering: Steering | None) -> AsyncIterator[None]:
    """Carries the caller's token and messages over to the run; what is there already goes first."""
    loop = asyncio.get_running_loop()
    rung = asyncio.Event()

    def ring() -> None:
        # The loop may be closed when somebody cancels or steers long after the call has returned.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(rung.set)

    await _carry_over(run, cancel, steering)
    carrier = asyncio.create_task(_carry(run, cancel, steering, rung))
    if cancel:
        cancel.listen(ring)
    if steering:
        steering.listen(ring)
    try:
        yield
    finally:
        if cancel:
            cancel.forget(ring)
        if steering:
            steering.listen(None)
        carrier.cancel()
        with suppress(asyncio.CancelledError):
            await carrier


async def _carry(
    run: RunHandle, cancel: CancellationToken | None, steering: Steering | None, rung: asyncio.Event
) -> None:
    while not (cancel and cancel.is_cancelled):
        await rung.wait()
        rung.clear()
        await _carry_over(run, cancel, steering)


async def _carry_over(run: RunHandle, cancel: CancellationToken | None, steering: Steering | None) -> None:
    try:
        for text in steering.drain() if steering else []:
            await run.steer(text)
        if cancel and cancel.is_cancelled:
            await run.cancel("the caller's CancellationToken")
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
        logger.info("the run %s has ended, a message for it came too late", run.id)


def _call(on_event: EventCallback, event: RunEvent) -> None:
    try:
        on_event(event.type, event.data)
    except Exception:
        logger.exception("on_event raised at event %d (%s)", event.seq, event.type)


def _wait(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The coroutine's result, from a loop of its own; in another thread when this one's loop is running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    results: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(asyncio.run(coroutine))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="perdure-invoke_agent")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
