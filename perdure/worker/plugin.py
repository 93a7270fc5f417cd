"""perdure as a Temporal plugin, with the permits of a worker's rates and the queues of its limited
tools.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, cast

from temporalio import activity
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.plugin import SimplePlugin
from temporalio.worker import ReplayerConfig, UnsandboxedWorkflowRunner, Worker, WorkerConfig

from ..activities.credentials import Credentials, CredentialSource
from ..activities.heartbeat import Readers
from ..activities.hooks import Hooks
from ..activities.inventory import checked_rates, permit
from ..activities.run_activities import RunActivities
from ..activities.run_cache import DEFAULT_CACHE_BYTES, RunCache
from ..activities.tool_activities import ToolActivities
from ..agents import Agent
from ..errors import ConfigurationError
from ..guardrails import (
    Compactor,
    Guardrails,
    Instruct,
    PrepareTools,
    require_guardrails,
    validators_of,
)
from ..options import CLOUD_INTERVALS, OWN_SERVER_INTERVALS
from ..payloads.converter import converter_from_environment, require_encrypting
from ..payloads.storage import close_storage
from ..prompty.worker_limits import WorkerLimits
from ..protocol.names import tool_queue
from ..protocol.run import rate_queue
from ..providers.clients import close_clients
from ..providers.prices import Prices, PriceSource
from ..settings.agent_file import is_cloud
from ..tools.dispatch import ToolBox
from ..tools.handlers import Toolset, toolset_of
from ..tools.kind import ToolKind
from ..tools.threads import watchdog
from ..tools.user_loop import UserLoop
from ..workflows.agent_run import AgentRun
from ..workflows.interceptors import RunLog
from ..workflows.notices import Notice
from ..workflows.runner import OwnWorkflowRunner
from ..workflows.session.session import Session
from .account import tool_heartbeat
from .ending import bound_end, in_background, surely_over
from .first_imports import import_providers, warm_up
from .logs import log_while
from .memory import DEFAULT_WORKFLOW_BYTES, WorkflowMemory
from .metrics import measure, meter_of, queue_measured
from .pauses import PauseInterceptor, PauseWatch
from .slots import with_slots

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from ..trace.live import LiveTracing

SHARE = 0.95
"""Share of the rate at which permits are given out: calls begin a little after their permits, at
varying delays."""
POLLS = 2
"""Concurrent polls of each rate queue: two give out some hundred permits a second."""


@asynccontextmanager
async def giving_permits(worker: Worker, rates: Mapping[str, float]) -> AsyncIterator[None]:
    """Poll a rate queue for each rate while the block runs; Temporal gives out no more permits than
    the rate allows.

    All workers of a task queue share its rate queues. Each poll sends the rate to the server, which
    uses the latest one. The modules of the paced providers are imported first. Otherwise the first
    call would import them, for a second or two on a busy machine, and all calls with a permit by
    then would follow at once.
    """
    if paced := {name.partition("/")[0] for name in rates}:
        await asyncio.to_thread(import_providers, sorted(paced))
    async with AsyncExitStack() as stack:
        for name, rate in rates.items():
            await stack.enter_async_context(
                bound_end(_giver(worker, rate_queue(worker.task_queue, name), rate))
            )
        yield


def _giver(worker: Worker, task_queue: str, rate: float) -> Worker:
    return Worker(
        _without_plugins(worker.client),
        task_queue=task_queue,
        activities=[permit],
        max_task_queue_activities_per_second=SHARE * rate,
        max_concurrent_activity_task_polls=POLLS,
    )


@asynccontextmanager
async def polling_tool_queues(
    worker: Worker, toolbox: ToolBox, activities: ToolActivities
) -> AsyncIterator[None]:
    """Poll the queue of each tool with `max_parallel` while the block runs, for that many
    concurrent calls.
    """
    config = worker.config()
    shared = (
        "interceptors",
        "graceful_shutdown_timeout",
        "max_heartbeat_throttle_interval",
        "deployment_config",
    )
    options: dict[str, Any] = {name: config[name] for name in shared if name in config}  # type: ignore[literal-required]
    async with AsyncExitStack() as stack:
        for name, most in toolbox.limited.items():
            limited = Worker(
                _without_plugins(worker.client),
                task_queue=tool_queue(worker.task_queue, name),
                activities=[activities.run_tool, activities.activity_named(name)],
                max_concurrent_activities=most,
                max_concurrent_activity_task_polls=min(most, POLLS),
                **options,
            )
            await stack.enter_async_context(bound_end(limited))
        yield


def _without_plugins(client: Client) -> Client:
    """Return the same connection without plugins, which a worker that only gives permits does not
    need.
    """
    config = client.config()
    config["plugins"] = []
    return Client(**config)


WORKER_DEFAULTS: dict[str, Any] = {
    # Another worker continues a lost worker's run after this time (10 s by default).
    "sticky_queue_schedule_to_start_timeout": timedelta(seconds=2),
    # Also the delay of streamed text for readers, and of a cancellation for an activity (60 s by
    # default).
    "max_heartbeat_throttle_interval": timedelta(seconds=OWN_SERVER_INTERVALS.stream_seconds),
    "graceful_shutdown_timeout": timedelta(seconds=30),
    "max_cached_workflows": 500,
}
"""Options of `temporalio.worker.Worker` that suit runs better than the SDK's own defaults."""


class PerdurePlugin(SimplePlugin):
    """Gives a client perdure's data converter, a replayer its workflows, and a worker everything to
    run agents.

    For a worker, these are the workflows, the activities, and `WORKER_DEFAULTS` for the options it
    does not set. Raises `ConfigurationError` for two tools with one name, for a tool without a
    name, for invalid prices or rates, and for a `tracer_provider` that is not OpenTelemetry's
    SDK's; TypeError for an argument of another type.

    Args:
        tools: Functions by tool name, or functions made with `@tool`, and toolsets, for their
            functions.
        guardrails: Guardrails by the name in `RunOptions.guardrails`.
        instructions: Functions that return instructions, by the name in
            `RunOptions.instructions_by`. The functions of agents among the `tools` are added
            automatically.
        compactors: Compactors by the name in `RunOptions.compactor`.
        prepare_tools: Functions that choose the offered tools, by the name in
            `RunOptions.prepare_tools`.
        tool_kinds: Kinds of tools by the `kind` in a file; they replace perdure's own of that name.
        resources: Objects shared by tools, such as `{Database: connect}`, by the type in a
            parameter's annotation. The function returns the object, or yields it and then closes
            it. The worker opens a resource at a tool's first use, on the event loop of async tools,
            and closes it at its own end. A function with a parameter gets the run's deps: its
            object serves only runs with equal deps, and is closed a minute after its last use.
        registered_tools: Whether functions registered by `@tool` in this process are also tools of
            the worker.
        prompt_root: The base folder for relative paths of sub-agents.
        prices: Model prices, as a table; see `perdure.providers.prices.Prices`. None
            uses the table named by `PERDURE_PRICES`, if any.
        conversation_cache_bytes: Memory in which the activities may cache conversations; 0 caches
            none.
        workflow_cache_bytes: Memory that waiting runs may take, in addition to the limit of
            `max_cached_workflows`.
        tool_loop: The event loop for async tools, guardrails and compactors, for clients that they
            share with other code. It must run all the time. None creates a loop in a thread, where
            blocking code does not harm other runs.
        tracer_provider: OpenTelemetry's provider to which the spans of runs are exported live; None
            exports none.
        model_rate: Model calls per second by provider (`openai`) or model (`openai/gpt-4o`), shared
            by all workers of the task queue; a model's rate overrides its provider's. Temporal
            keeps the rate: `perdure docs pacing`.
        mock: Whether the answers in `DEBUG_MOCK_RESPONSES` replace those of models: `perdure docs
            kaos`.
        credentials: The secrets for `${credential:ID}` in agents: a mapping from ids to secrets, or
            a function, plain or async, from an id to its secret, called when a call needs it; None,
            or LookupError, for an id that this worker does not have.
        limits: Limits for agents on this worker, whoever wrote them; None uses
            `PERDURE_ALLOW_COMMANDS` and the like, which allow little by default: `perdure docs
            worker-limits`.
        on_failure: Default for runs that can't continue, if neither their starter nor their file
            sets it: None and "fail" let them fail, "hold" holds them (`perdure docs waiting`).
    """

    def __init__(
        self,
        *,
        tools: Toolset
        | Mapping[str, Callable[..., Any]]
        | Sequence[Callable[..., Any] | Toolset | Agent] = (),
        guardrails: Mapping[str, Guardrails] | None = None,
        compactors: Mapping[str, Compactor] | None = None,
        prepare_tools: Mapping[str, PrepareTools] | None = None,
        instructions: Mapping[str, Instruct] | None = None,
        tool_kinds: Mapping[str, ToolKind] | None = None,
        resources: Mapping[type, Callable[..., Any]] | None = None,
        prompt_root: str | PathLike[str] | None = None,
        prices: PriceSource | None = None,
        conversation_cache_bytes: int = DEFAULT_CACHE_BYTES,
        workflow_cache_bytes: int = DEFAULT_WORKFLOW_BYTES,
        tool_loop: asyncio.AbstractEventLoop | None = None,
        registered_tools: bool = True,
        tracer_provider: TracerProvider | None = None,
        model_rate: Mapping[str, float] | None = None,
        mock: bool = False,
        credentials: CredentialSource | None = None,
        limits: WorkerLimits | None = None,
        on_failure: Literal["fail", "hold"] | None = None,
    ) -> None:
        self.settings = {
            name: value for name, value in locals().items() if name not in ("self", "__class__")
        }
        require_guardrails(guardrails or {})
        self.rates = checked_rates(model_rate)
        allowed = limits or WorkerLimits.from_environment()
        self.runs = RunCache(conversation_cache_bytes, allowed)
        self.workflows_held = WorkflowMemory(workflow_cache_bytes, on_end=self.runs.forget)
        self.user_loop = UserLoop(tool_loop)
        self.toolbox = ToolBox(
            tools,
            kinds=tool_kinds,
            registered=registered_tools,
            loop=self.user_loop,
            resources=resources,
            allowed=allowed,
        )
        readers = Readers()
        self.activities_of_runs = RunActivities(
            self.toolbox,
            Hooks(
                {**validators_of(tools), **(guardrails or {})},
                compactors or {},
                {**toolset_of(tools).prepare_tools, **(prepare_tools or {})},
                {**toolset_of(tools).instructions, **(instructions or {})},
                in_threads=True,
                loop=self.user_loop,
            ),
            self.runs,
            self.user_loop,
            Prices(prices),
            Credentials(credentials, self.user_loop),
            prompt_root,
            self.rates,
            mock,
            readers,
        )
        self.pauses = PauseWatch(self.runs)
        self.activities_of_runs.stock.on_failure = on_failure
        self.tracing = _live_tracing(tracer_provider, self.runs)
        super().__init__(
            "perdure",
            data_converter=_converter,
            workflows=[AgentRun, Session, Notice],
            activities=self._with_activities,
            interceptors=[
                PauseInterceptor(self.pauses),
                self.workflows_held,
                RunLog(readers.note, readers.warn),
                *([self.tracing] if self.tracing else []),
            ],
            run_context=_closing_clients,
        )

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        """Add perdure's parts and defaults; called by `Worker`. Raises `ConfigurationError` if they
        are already present.
        """
        if AgentRun in config.get("workflows", ()):
            raise ConfigurationError(
                "The worker has two PerdurePlugins, its client's and its own: leave one out, or "
                "let perdure.worker.create_worker(client, …) put them together"
            )
        config = super().configure_worker(config)
        interceptors = [
            *config.get("interceptors", ()),
            *measure(config["client"], self.runs),
        ]
        slots = with_slots(config, meter_of(config["client"]))
        ours = {**_defaults_for(config), **slots, "interceptors": interceptors}
        if type(config.get("unsandboxed_workflow_runner")) is UnsandboxedWorkflowRunner:
            ours["unsandboxed_workflow_runner"] = OwnWorkflowRunner()
        return cast(WorkerConfig, {**config, **ours})

    def configure_replayer(self, config: ReplayerConfig) -> ReplayerConfig:
        """Replay with the workflow runner of perdure's workers, which orders simultaneous events;
        called by `Replayer`.
        """
        config = super().configure_replayer(config)
        if type(config.get("unsandboxed_workflow_runner")) is UnsandboxedWorkflowRunner:
            config["unsandboxed_workflow_runner"] = OwnWorkflowRunner()
        return config

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:
        bound_end(worker)
        before = (
            log_while(worker),
            in_background(self.pauses.watch, worker.client),
            in_background(self.workflows_held.watch, worker),
            self.user_loop.hold(),
            giving_permits(worker, self.rates),
            tool_heartbeat(worker, self.settings, self.toolbox),
            polling_tool_queues(worker, self.toolbox, self.activities_of_runs.tools),
            in_background(warm_up),
        )
        async with AsyncExitStack() as stack, queue_measured(worker):
            stack.enter_context(surely_over(worker))
            for each in before:
                await stack.enter_async_context(each)
            with watchdog.watch_running_loop("the worker's event loop"):
                try:
                    await super().run_worker(worker, next)
                finally:
                    await self._close()

    async def _close(self) -> None:
        await self.toolbox.close()
        if self.tracing is not None:
            await asyncio.to_thread(self.tracing.spans.close)

    def _with_activities(
        self, given: Sequence[Callable[..., Any]] | None
    ) -> Sequence[Callable[..., Any]]:
        """Return the owner's activities and those of runs, with a dynamic one unless the owner has
        one.
        """
        own, runs = list(given or ()), self.activities_of_runs
        runs.stock.takes_any_tool = not _has_dynamic(own)
        return [
            *own,
            self.pauses.pause_on_run,
            *runs.all,
            *([runs.tools.any_tool] if runs.stock.takes_any_tool else []),
        ]


def _live_tracing(provider: TracerProvider | None, runs: RunCache) -> LiveTracing | None:
    if provider is None:
        return None
    from ..trace.live import LiveTracing

    return LiveTracing(provider, runs)


def _defaults_for(config: WorkerConfig) -> dict[str, Any]:
    """Return defaults for options at their default in `Worker`: their values are the very objects
    of its signature.
    """
    options = inspect.signature(Worker.__init__).parameters
    defaults = dict(WORKER_DEFAULTS)
    if is_cloud(config["client"].service_client.config.target_host):
        defaults["max_heartbeat_throttle_interval"] = timedelta(
            seconds=CLOUD_INTERVALS.stream_seconds
        )
    return {
        name: value for name, value in defaults.items() if config.get(name) is options[name].default
    }


def _converter(given: DataConverter | None) -> DataConverter:
    if given is None or given == DataConverter.default:
        return converter_from_environment()
    require_encrypting(given)
    return given


_workers: Counter[asyncio.AbstractEventLoop] = Counter()


@asynccontextmanager
async def _closing_clients() -> AsyncIterator[None]:
    """Close the connections to providers and storage when the last worker of this event loop has
    ended.
    """
    loop = asyncio.get_running_loop()
    _workers[loop] += 1
    try:
        yield
    finally:
        _workers[loop] -= 1
        if not _workers[loop]:
            del _workers[loop]
            await close_clients()
            await close_storage()


def _has_dynamic(activities: Sequence[Callable[..., Any]]) -> bool:
    """Return whether one of these is a dynamic activity; a worker can have only one."""
    return any(
        (definition := activity._Definition.from_callable(function)) is not None
        and definition.name is None
        for function in activities
    )
