"""What the Temporal UI shows of a run that is under way."""

from __future__ import annotations

from ..agent import Agent
from ..loop.state import LoopState


def describe_progress(agent: Agent, state: LoopState) -> str:
    """The workflow's current details, as Markdown."""
    lines = [
        f"**{agent.name or 'agent'}**, iteration {state.iteration + 1}",
        "",
        f"- model calls: {state.iterations}",
        f"- tool calls: {state.tool_calls}",
        f"- tokens: {state.usage.input_tokens} in, {state.usage.output_tokens} out",
    ]
    if state.last_calls:
        lines.append(f"- last asked for: `{state.last_calls[:300]}`")
    return "\n".join(lines)
