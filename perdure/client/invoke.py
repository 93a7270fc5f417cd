"""Runs an agent to its end in one call, as the Prompty pages define it (§9, §13.7), with its own
worker if needed.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from contextvars import ContextVar
from inspect import isawaitable
from os import PathLike
from threading import Lock
from typing import Any, Literal, ParamSpec, TypedDict, Unpack, cast

from opentelemetry.trace import TracerProvider
from temporalio.client import Client
from temporalio.worker import Interceptor, Worker
from typing_extensions import TypeVar

from ..activities.credentials import CredentialSource
from ..agents import Agent, loaded_from, with_others
from ..errors import ConfigurationError
from ..events import RunEvent
from ..guardrails import Compactor, Guardrails, Instruct, validators_of, with_validator
from ..messages import Message
from ..model_choice import ModelChoice, model_choice
from ..options import RunOptions
from ..payloads.converter import with_converter
from ..prompty.worker_limits import OPEN
from ..providers.prices import PriceSource
from ..settings.child_agents import handoffs_of
from ..settings.delegates import with_delegates
from ..text import require_known
from ..tools.declaration import agent_with_tools
from ..tools.files import agents_of_run, record_tools
from ..tools.handlers import Toolset, toolset_of
from ..tools.kind import Kinds, ToolKind
from ..tools.threads import LoopThread
from ..tools.user_loop import end_on
from ..trace.environment import provider_of_process
from ..webhooks import Webhook
from ..worker import create_worker
from .callers import (
    AnswerText,
    Flushing,
    Give,
    Relay,
    blocking_form,
    held_back_characters,
    stream_texts,
)
from .connection import connect, environment_names_a_server
from .embedded.server import LocalServer
from .output_type import OutputType
from .persons import Answer, Approve, Persons
from .run_input import loaded_agent
from .runs import start_run
from .tokens import CancellationToken, Steering

EventCallback = Callable[[str, dict[str, Any]], Awaitable[object] | None]
Tools = Toolset | Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any] | Toolset]
GivenAgent = Agent | str | PathLike[str]
GivenInputs = Mapping[str, Any] | str | None


class MoreOptions(TypedDict, total=False):
    """The fields of `RunOptions` that `invoke_agent` does not list as parameters."""

    turn: int | None
    instructions_by: str | None
    instructions_replaced: bool
    tool_timeout: float
    llm_timeout: float
    retry_base_seconds: float
    rate_limit_seconds: float
    max_parallel_tools: int
    missing_tool_grace: float
    prepare_tools: str | None
    cancel_grace: float
    max_answer_bytes: int
    output_retries: int
    on_failure: Literal["fail", "hold"] | None
    on_limit: Literal["raise", "partial", "final_answer"]
    unknown_tools: Literal["recover", "raise"]
    max_total_tokens: int | None
    max_tool_calls: int | None
    max_seconds: float | None
    tool_protocol: Literal["native", "json", "auto"]
    limit_message: str | None
    progress: bool
    max_result: int | None
    trim_to: float
    keep_messages: int
    max_depth: int
    max_cost_usd: float | None
    lost_worker_seconds: float | None
    stream_seconds: float | None
    webhooks: Sequence[Webhook | str | Mapping[str, Any]]


P = ParamSpec("P")
T = TypeVar("T", default=Any)

_given: ContextVar[frozenset[str]] = ContextVar("perdure_given", default=frozenset())


def remember_given(
    function: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return the coroutine function, which may call `given_options` before its first await to learn
    which options its caller passed.
    """

    @functools.wraps(function)
    async def call(*arguments: P.args, **named: P.kwargs) -> T:
        token = _given.set(frozenset(named))
        try:
            return await function(*arguments, **named)
        finally:
            _given.reset(token)

    return call


def given_options(**values: Any) -> dict[str, Any]:
    """Return the values whose names the caller passed explicitly."""
    return {name: value for name, value in values.items() if name in _given.get()}


@asynccontextmanager
async def run_elsewhere(
    worker: Worker, within: AbstractAsyncContextManager[None] | None = None
) -> AsyncIterator[None]:
    """Run the worker on an event loop in another thread while the block runs, inside `within` on
    that loop.

    Raises the error that ends the worker, and cancels the block if that happens first.
    """
    loop, stop = _threads.loop(), asyncio.Event()

    async def serve() -> None:
        async with within or nullcontext(), worker:
            await stop.wait()

    block = asyncio.current_task()
    assert block is not None
    serving = asyncio.create_task(end_on(loop, serve, "worker"))
    serving.add_done_callback(block.cancel)
    try:
        yield
    except asyncio.CancelledError:
        if serving.done():
            block.uncancel()
            (await serving).result()
        raise
    finally:
        serving.remove_done_callback(block.cancel)
        loop.call_soon_threadsafe(stop.set)
        (await serving).result()


class _Threads:
    """The thread for the workers of all calls: it starts with the first call and keeps its
    connections to providers.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._thread: LoopThread | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._thread is None or not self._thread.is_alive:
                self._thread = LoopThread("perdure-workers", "the worker's event loop")
            return self._thread.loop


_threads = _Threads()

logger = logging.getLogger("perdure")

OWN_HOOKS = "invoke_agent"
"""The name under which the call's own worker registers the given guardrails and compactor."""


@remember_given
async def invoke_agent_async(
    path_or_agent: GivenAgent,
    inputs: GivenInputs = None,
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
    output_type: OutputType[T] | None = None,
    client: Client | None = None,
    id: str | None = None,
    stream: bool = False,
    stream_after: int | None = None,
    prices: PriceSource | None = None,
    credentials: CredentialSource | None = None,
    tracer_provider: TracerProvider | None = None,
    resources: Mapping[type, Callable[..., Any]] | None = None,
    deps: Any = None,
    instructions: Mapping[str, Instruct] | None = None,
    tool_kinds: Mapping[str, ToolKind] | None = None,
    approve: Approve | None = None,
    answer: Answer | None = None,
    model: str | None = None,
    provider: str | None = None,
    endpoint: str | None = None,
    **more: Unpack[MoreOptions],
) -> T:
    """Run an agent and return its processed result, as `output_type` if there is one (see
    `start_run`).

    The run is a real, durable one. It executes on the server that the environment names, or else on
    the embedded one, with a worker in this process that has the given tools, guardrails and
    compactor.

    Async tools and hooks run on the caller's event loop, where their clients live; plain ones run
    in threads. `on_event` is called on the caller's loop. The worker itself has a thread with
    another loop, so blocking the caller's loop does not harm it.

    The model is also offered tools that the file does not declare, as their functions describe them
    (§9.2).

    With `stream`, this returns an async iterator of the final answer's text instead (§9.3), a plain
    one in the blocking form. The run starts with the first piece and is cancelled when the caller
    leaves the iterator; its errors are raised at the end. Text before tool calls is not part of the
    answer, so the answer of an agent with tools arrives in one piece; with `stream_after`, a text
    longer than that many characters is passed on as the model writes it, whatever follows. An
    answer that `outputs` or the output guardrail check arrives in one piece after the check.

    `on_event(type, data)`, plain or async, gets every event in order; its errors are logged.
    `messages` is a conversation to start from, in place of the prompt (§14). `client` is a
    connection to use, and `id` becomes the run's id. `prices` are the models' prices, `credentials`
    have the secrets that the agent names (see `create_worker`). `tracer_provider` gets the run's
    spans; without one, the program's provider, or the collector in OpenTelemetry's variables.
    `deps` are passed to the run's functions (`ToolContext.deps`), `resources` are shared by tools,
    `instructions` are functions for `instructions_by`, and `tool_kinds` are further kinds of tools
    (see `PerdurePlugin`). `model` (an id, or `PROVIDER/ID`), `provider` and `endpoint` override the
    agent's file. `more` are further fields of `RunOptions`; the agent's file and then the defaults
    of `RunOptions` fill in the rest.

    `approve` and `answer`, plain or async, are called with each `PendingApproval` of this run and
    of the runs that it calls. `approve` returns True, or other arguments, to approve the call;
    False, or a text with the reason, to deny it. `answer` returns the answer to the model's
    question. With None, or without a function, the call keeps waiting for another person, and the
    log has the command to type.

    Raises TypeError for an unknown argument; the errors of `start_run` and
    `RunHandle.result`; and `ConfigurationError` when no server can be reached or started.
    """
    require_known("invoke_agent", more, [*_signature_names(), *MoreOptions.__annotations__])
    agent, functions = _agent_with_tools(
        path_or_agent, tools or (), model_choice(model, provider, endpoint)
    )
    guardrails = (
        with_validator(guardrails, loaded_from(agent).output_validator) if guardrails else None
    )
    said = given_options(
        max_iterations=max_iterations,
        max_llm_retries=max_llm_retries,
        context_budget=context_budget,
        parallel_tool_calls=parallel_tool_calls,
    )
    options = RunOptions(
        raw=raw,
        stream=stream,
        compactor=OWN_HOOKS if compactor else None,
        **({"guardrails": OWN_HOOKS} if guardrails else {}),
        **{"missing_tool_grace": 0.0, **said, **more},  # The run has no other worker.
    )
    if tool_kinds:
        agent = with_others(*record_tools(agent, Kinds(tool_kinds)))
    output_type = loaded_from(agent).output_type if output_type is None else output_type
    hooks: dict[str, Any] = {
        "guardrails": {**validators_of([agent]), **({OWN_HOOKS: guardrails} if guardrails else {})},
        "compactors": {OWN_HOOKS: compactor} if compactor else None,
        "instructions": {**toolset_of([agent]).instructions, **(instructions or {})},
        "prices": prices,
        "credentials": credentials,
        "tracer_provider": tracer_provider or provider_of_process(logger.warning),
        "resources": resources,
        "tool_kinds": tool_kinds,
        "prepare_tools": toolset_of([agent]).prepare_tools,
    }

    checks = with_validator(guardrails, loaded_from(agent).output_validator) or Guardrails()
    is_checked = output_type is not None or bool(checks.callbacks("output"))
    text = AnswerText(held_back_characters(agent, stream_after, is_checked=is_checked))

    async def call(cancel: CancellationToken | None, give: Give | None = None) -> Any:
        relay, show = Relay(cancel, steering), _event_handler(on_event, text, give)
        async with _server(client) as connected:
            persons = Persons(with_converter(connected), approve, answer)
            worker = _own_worker(connected, functions, [Flushing(relay.flush), persons], hooks)
            run = await start_run(
                connected,
                agent,
                inputs,
                task_queue=worker.task_queue,
                id=id,
                options=options,
                messages=messages,
                output_type=output_type,
                deps=deps,
            )
            async with run_elsewhere(worker, relay.to(run)), persons.attend():
                if show is not None:
                    async for event in run.stream():
                        await show(event)
                result = await run.result()
        if steering:
            steering.put_back(result.unread_steering)
        return result.output

    result: Any = stream_texts(call, cancel) if stream else await call(cancel)
    return cast(T, result)


invoke_agent = blocking_form(invoke_agent_async)
"""The blocking form of `invoke_agent_async`. May be called in a thread whose event loop is
running."""


def _signature_names() -> list[str]:
    """Return the names of the arguments, without those in `more`."""
    return [name for name in inspect.signature(invoke_agent_async).parameters if name != "more"]


def _agent_with_tools(
    path_or_agent: GivenAgent, tools: Tools, choice: ModelChoice
) -> tuple[Agent, Mapping[str, Callable[..., Any]]]:
    """Return the agent with all of these tools and its own, and all their functions.

    The model is also offered tools that the file does not declare (§9.2), unless an agent that it
    hands over to does.
    """
    agent = loaded_agent(path_or_agent, choice)
    given = toolset_of(tools)
    functions = {**toolset_of([agent]).functions, **given.functions}
    elsewhere = _tools_after_handoffs(agent) - loaded_from(agent).functions.keys()
    if given.declarations:
        from .expression import with_declared  # brings the template engine

        agent = with_declared(agent, given.declarations)
    return agent_with_tools(agent, [name for name in functions if name not in elsewhere]), functions


def _tools_after_handoffs(agent: Agent) -> set[str]:
    """Return the names of the tools of the agents to which a run of this one may hand over."""
    agent = with_delegates(agent)
    if not any(tool.is_handoff for tool in agent.tools or ()):
        return set()
    agent, agents = record_tools(agent)
    others = handoffs_of(agent, agents_of_run(agent, agents)).values()
    return {tool.name for other in others for tool in other.tools or ()}


@asynccontextmanager
async def _server(client: Client | None) -> AsyncIterator[Client]:
    if client is not None:
        yield client
    elif environment_names_a_server():
        yield await connect()
    else:
        yield await _embedded_server()


_embedded = LocalServer()
"""The shared server: the first call that needs it starts it, and it runs until this process
ends."""


async def _embedded_server() -> Client:
    if not _embedded.is_started:
        await _embedded.start()
    try:
        return await _embedded.connect()
    except ConfigurationError:
        # It crashed or was stopped. Its database, and with it the runs, are still there.
        _embedded.leave()
        await _embedded.start()
        return await _embedded.connect()


def _own_worker(
    client: Client, tools: Tools, interceptors: Sequence[Interceptor], hooks: Mapping[str, Any]
) -> Worker:
    """Return a worker for one run, on its own queue."""
    return create_worker(
        client,
        task_queue=f"perdure-{OWN_HOOKS}-{secrets.token_hex(6)}",
        tools=tools,
        tool_loop=asyncio.get_running_loop(),
        interceptors=interceptors,
        limits=OPEN,
        **hooks,
    )


def _event_handler(
    on_event: EventCallback | None, answer: AnswerText, give: Give | None
) -> Callable[[RunEvent], Awaitable[None]] | None:
    """Return the handler for each event; None without one."""
    if on_event is None and give is None:
        return None

    async def show(event: RunEvent) -> None:
        if on_event is not None:
            await _call(on_event, event)
        if give is not None and (text := answer.more(event)):
            give(text)

    return show


async def _call(on_event: EventCallback, event: RunEvent) -> None:
    try:
        if isawaitable(told := on_event(event.type, event.data)):
            await told
    except Exception:
        logger.exception("on_event raised at event %d (%s)", event.seq, event.type)
