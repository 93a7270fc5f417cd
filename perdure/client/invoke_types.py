"""The types of `invoke_agent` for type checkers and editors: its options, and the result for each
of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, TypedDict, Unpack, overload

from opentelemetry.trace import TracerProvider
from temporalio.client import Client
from typing_extensions import TypeVar

from ..activities.credentials import CredentialSource
from ..agents import Agent
from ..guardrails import Compactor, Guardrails, Instruct
from ..messages import Message
from ..providers.prices import PriceSource
from ..tools.handlers import Toolset
from ..tools.kind import ToolKind
from ..webhooks import Webhook
from .output_type import OutputType
from .persons import Answer, Approve
from .tokens import CancellationToken, Steering

EventCallback = Callable[[str, dict[str, Any]], Awaitable[object] | None]
Tools = Toolset | Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any] | Toolset]
GivenAgent = Agent | str | PathLike[str]
GivenInputs = Mapping[str, Any] | str | None

T = TypeVar("T", default=Any)


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


class InvokeOptions(MoreOptions, total=False):
    """Every argument of `invoke_agent` that does not affect the type of its result."""

    max_iterations: int
    max_llm_retries: int
    on_event: EventCallback | None
    cancel: CancellationToken | None
    context_budget: int | None
    guardrails: Guardrails | None
    steering: Steering | None
    parallel_tool_calls: bool
    raw: bool
    compactor: Compactor | None
    messages: Sequence[Message | Mapping[str, Any]] | None
    client: Client | None
    id: str | None
    stream_after: int | None
    prices: PriceSource | None
    credentials: CredentialSource | None
    tracer_provider: TracerProvider | None
    resources: Mapping[type, Callable[..., Any]] | None
    deps: Any
    instructions: Mapping[str, Instruct] | None
    tool_kinds: Mapping[str, ToolKind] | None
    approve: Approve | None
    answer: Answer | None
    model: str | None
    provider: str | None
    endpoint: str | None


class InvokeAgent(Protocol):
    """`invoke_agent`: with `stream`, the text in pieces, else the output, of the given
    `output_type`.
    """

    __name__: str

    @overload
    def __call__(
        self,
        path_or_agent: GivenAgent,
        inputs: GivenInputs = None,
        tools: Tools | None = None,
        *,
        stream: Literal[True],
        output_type: Any = None,
        **options: Unpack[InvokeOptions],
    ) -> Iterator[str]: ...

    @overload
    def __call__(
        self,
        path_or_agent: GivenAgent,
        inputs: GivenInputs = None,
        tools: Tools | None = None,
        *,
        output_type: OutputType[T] | None = None,
        stream: bool = False,
        **options: Unpack[InvokeOptions],
    ) -> T: ...


class InvokeAgentAsync(Protocol):
    """The same for `invoke_agent_async`, which is awaited, also for the iterator."""

    __name__: str

    @overload
    async def __call__(
        self,
        path_or_agent: GivenAgent,
        inputs: GivenInputs = None,
        tools: Tools | None = None,
        *,
        stream: Literal[True],
        output_type: Any = None,
        **options: Unpack[InvokeOptions],
    ) -> AsyncIterator[str]: ...

    @overload
    async def __call__(
        self,
        path_or_agent: GivenAgent,
        inputs: GivenInputs = None,
        tools: Tools | None = None,
        *,
        output_type: OutputType[T] | None = None,
        stream: bool = False,
        **options: Unpack[InvokeOptions],
    ) -> T: ...
