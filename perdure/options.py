"""What a caller may choose about one run."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class RunOptions(BaseModel):
    """The options of a run (§13.7). Durations are in seconds, sizes in characters."""

    model_config = ConfigDict(extra="forbid")

    max_iterations: int = Field(default=10, ge=1)
    """So many rounds of tool calls are allowed; then `on_limit` decides (§9.1)."""
    max_llm_retries: int = Field(default=3, ge=1)
    """Attempts of one model call in total, the first included (§9.10)."""
    context_budget: int | None = Field(default=None, gt=0)
    """Characters that the model may be sent; None sends everything (§13.3)."""
    parallel_tool_calls: bool = False
    """Runs the tool calls of one reply concurrently (§13.6)."""
    raw: bool = False
    """Gives the provider's own response as the output."""
    turn: int | None = None
    """A label for the trace of a conversation in turns (§14)."""
    stream: bool = False
    """Streams the model's text and thinking to whoever watches."""
    guardrails: str | None = None
    """Name of the guardrails that the worker registered."""
    compactor: str | None = None
    """Name of the compactor that the worker registered; None uses the built-in summary (§13.3)."""
    tool_timeout: float = Field(default=30.0, gt=0)
    """Per tool execution, where the tool does not say otherwise."""
    llm_timeout: float = Field(default=600.0, gt=0)
    """Per attempt of a model call."""
    retry_base_seconds: float = Field(default=2.0, ge=0)
    """The wait before the first retry; it doubles from retry to retry, up to a minute."""
    rate_limit_seconds: float = Field(default=300.0, ge=0)
    """So long in all may one model call wait for rate limits to pass; such waits cost no attempt."""
    cancel_grace: float = Field(default=30.0, ge=0)
    """So long may a running tool go on after the run was cancelled."""
    on_limit: Literal["raise", "partial", "final_answer"] = "raise"
    """When a limit is reached: fail, give a partial result, or ask the model once more without tools."""
    unknown_tools: Literal["recover", "raise"] = "recover"
    """A call of a tool that does not exist: tell the model what exists, or fail the run (§9.9)."""
    max_total_tokens: int | None = Field(default=None, gt=0)
    max_tool_calls: int | None = Field(default=None, gt=0)
    max_seconds: float | None = Field(default=None, gt=0)
    """The run's age, waits included."""
    max_repeated_calls: int | None = Field(default=None, ge=2)
    """So many rounds in a row may ask for exactly the same calls; None leaves it to `max_iterations`."""
