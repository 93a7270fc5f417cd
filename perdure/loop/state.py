"""What the loop remembers from one iteration to the next, beside the conversation."""

from __future__ import annotations

from pydantic import BaseModel

from ..messages import Usage


class LoopState(BaseModel):
    """Survives continue-as-new: add fields with defaults, never rename."""

    iteration: int = 0
    """The round in progress, from 1; 0 before the first."""
    iterations: int = 0
    """Model calls that completed."""
    tool_calls: int = 0
    """Tool executions that were started."""
    usage: Usage = Usage()
    iteration_usage: list[tuple[int, int, int, int, int]] = []
    """The usage of each completed model call: the fields of `Usage`, in order."""
    last_text: str = ""
    """The last text that the model said beside or instead of tool calls."""
    last_calls: str = ""
    """The calls of the last round, as one text."""
    repeated: int = 0
    """So many rounds in a row asked for exactly `last_calls`."""
    started_at: float = 0.0
    """Seconds since the epoch."""

    def record(self, usage: Usage) -> None:
        """Count one completed model call."""
        self.iterations += 1
        self.usage = self.usage + usage
        self.iteration_usage.append(
            (
                usage.input_tokens,
                usage.output_tokens,
                usage.total_tokens,
                usage.cached_input_tokens,
                usage.reasoning_tokens,
            )
        )
