"""The behaviours that a run may need of its workers."""

from __future__ import annotations

from ..options import RunOptions

LOADED_BEGINNING = "loaded-beginning"
"""A run begins with a conversation that another run's history holds (`RunInput.beginning`)."""

SESSION = "session"
"""A run is a turn of a session, to which it hands over what it has added to the conversation (`RunInput.session`)."""

PROMPTED_TOOLS = "prompted-tools"
"""The model is told of its tools in the prompt, and calls them by JSON in its text (`RunOptions.tool_protocol`)."""

AGENT_LIMITS = "agent-limits"
"""A run has limits that came after version 0.1 (`AFTER_THE_FIRST_VERSION`)."""

CREDENTIALS = "credentials"
"""The agent, or one that it calls, names secrets by ids that workers resolve (`${credential:ID}`)."""

CONTEXT = "context"
"""Messages of the conversation go along with calls of a tool (`ToolSpec.context`)."""

FALLBACK = "fallback"
"""The agent, or one that it calls, names other models that are called where its own fails (`Model.fallback`)."""

TRIM_TO = "trim-to"
"""Trimming leaves more room than it has to (`RunOptions.trim_to`)."""

HOLD = "hold"
"""The run may be held instead of failing (`RunOptions.on_failure`)."""

STALE_AFTER = "stale-after"
"""The run notices that it had no worker for a long time (`RunOptions.stale_after`)."""

WEBHOOKS = "webhooks"
"""Somebody is told what becomes of the run (`RunOptions.webhooks`)."""

DECIDERS = "deciders"
"""Not everybody may decide about calls of the agent's tools, or of one that it calls (`ApprovalPolicy`)."""

LOCK = "lock"
"""What the agent's tools, or those of one that it calls, may offer is pinned (`perdure lock`)."""

KNOWN_FEATURES: frozenset[str] = frozenset(
    {LOADED_BEGINNING, SESSION, PROMPTED_TOOLS, AGENT_LIMITS, CREDENTIALS, CONTEXT, FALLBACK, TRIM_TO, HOLD}
    | {STALE_AFTER, WEBHOOKS, DECIDERS, LOCK}
)
"""The names of the behaviours beyond those of version 0.1 that this version has.

A change that an older worker can't carry out, although it could read the run's input, gets a name here. Whoever starts
a run that depends on it puts the name into `RunInput.features`.
"""

AFTER_THE_FIRST_VERSION = ("keep_messages", "limit_message", "max_result", "progress")
"""Options that a worker of version 0.1 would pass over: the conversation of the run, or its events, would be others."""


def needed_by(options: RunOptions) -> list[str]:
    """Return what a run with these options needs of its workers."""
    fields = RunOptions.model_fields
    is_later = any(getattr(options, name) != fields[name].get_default() for name in AFTER_THE_FIRST_VERSION)
    needed = {
        PROMPTED_TOOLS: options.tool_protocol != "native",
        AGENT_LIMITS: is_later,
        TRIM_TO: options.context_budget is not None and options.trim_to < 1,
        HOLD: options.on_failure == "hold",
        STALE_AFTER: options.stale_after is not None,
        WEBHOOKS: bool(options.webhooks),
    }
    return [feature for feature, is_needed in needed.items() if is_needed]
