"""The types of the arguments of `invoke_agent`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict

from ..agents import Agent
from ..tools.handlers import Toolset
from ..webhooks import Webhook

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
