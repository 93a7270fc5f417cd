"""Builds a worker that runs agents."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import Worker, WorkerDeploymentConfig

from ..activities.credentials import CredentialSource
from ..activities.run_cache import DEFAULT_CACHE_BYTES
from ..agents import Agent
from ..errors import ConfigurationError
from ..guardrails import Compactor, Guardrails, Instruct, PrepareTools
from ..payloads.converter import with_converter
from ..prompty.worker_limits import WorkerLimits
from ..providers.prices import PriceSource
from ..tools.handlers import Toolset, collect_tools
from ..tools.kind import ToolKind
from .memory import DEFAULT_WORKFLOW_BYTES
from .plugin import PerdurePlugin

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider


def create_worker(
    client: Client,
    *,
    task_queue: str = "perdure",
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
    deployment: str | None = None,
    build_id: str | None = None,
    on_failure: Literal["fail", "hold"] | None = None,
    **worker_options: Any,
) -> Worker:
    """Return a worker that runs agents with the given tools, guardrails and compactors; see
    `PerdurePlugin` for these.

    `worker_options` go to `temporalio.worker.Worker` and override perdure's defaults. Use one
    client per worker: two workers on one client and task queue can hang when the first one stops.
    If the client itself has a `PerdurePlugin`, the worker also gets that plugin's settings; the
    arguments here take precedence.

    With `deployment` and `build_id`, the worker belongs to that version of a deployment: a run
    stays with the version that began it. When the current version changes, the run moves to it at
    its next iteration (`perdure docs deploys`).

    Raises `ConfigurationError` for two tools with one name, for a tool without a name, for invalid
    prices, credentials or rates, for a deployment without a build or the reverse, and for an
    unusable storage in the environment.
    """
    if deployment or build_id:
        worker_options["deployment_config"] = deployment_config(deployment or "", build_id or "")
    client, of_client = _taken_apart(with_converter(client))
    settings = dict(
        tools=tools,
        guardrails=guardrails,
        compactors=compactors,
        prepare_tools=prepare_tools,
        instructions=instructions,
        tool_kinds=tool_kinds,
        resources=resources,
        prompt_root=prompt_root,
        prices=prices,
        conversation_cache_bytes=conversation_cache_bytes,
        workflow_cache_bytes=workflow_cache_bytes,
        tool_loop=tool_loop,
        registered_tools=registered_tools,
        tracer_provider=tracer_provider,
        model_rate=model_rate,
        mock=mock,
        credentials=credentials,
        limits=limits,
        on_failure=on_failure,
    )
    plugin = PerdurePlugin(**_together(of_client, settings))
    worker_options["plugins"] = [*worker_options.get("plugins", ()), plugin]
    return Worker(client, task_queue=task_queue, **worker_options)


def deployment_config(deployment: str, build_id: str) -> WorkerDeploymentConfig:
    """Return the configuration of a worker of this version, to which it pins the runs that it
    begins.

    Raises `ConfigurationError` for a missing name, or one that Temporal does not accept.
    """
    if not deployment or not build_id or {".", ":"} & {*deployment} or ":" in build_id:
        raise ConfigurationError(
            f"the version of a worker is deployment={deployment!r}, build_id={build_id!r}: "
            "expected both, the first one without '.' and ':', the second one without ':'"
        )
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name=deployment, build_id=build_id),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.PINNED,
    )


def _taken_apart(client: Client) -> tuple[Client, Mapping[str, Any]]:
    """Return the client without perdure's plugin, since a worker has its own, and that plugin's
    settings.
    """
    plugins = client.config()["plugins"]
    ours = [plugin for plugin in plugins if isinstance(plugin, PerdurePlugin)]
    if not ours:
        return client, {}
    settings = client.config()
    settings["data_converter"] = client.data_converter
    settings["plugins"] = [plugin for plugin in plugins if plugin not in ours]
    return Client(**settings), ours[-1].settings


def _together(of_client: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a worker's settings: its own, and those of its client's plugin where it has none; both
    have tools.
    """
    if not of_client:
        return dict(own)
    parameters = inspect.signature(PerdurePlugin).parameters
    given = {name: value for name, value in own.items() if value is not parameters[name].default}
    tools = {**collect_tools(of_client["tools"]), **collect_tools(own["tools"])}
    return {**own, **of_client, **given, "tools": tools}
