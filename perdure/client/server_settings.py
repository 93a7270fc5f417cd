"""The settings that make Temporal's dev server fast enough to work with."""

from __future__ import annotations

FAST = (
    "history.transferProcessorMaxPollRPS=2000",
    "history.timerProcessorMaxPollRPS=2000",
    'history.timerProcessorMaxTimeShift="10ms"',
)
"""Dynamic configuration: by default the server dispatches 20 tasks per second and rounds timers up to 1 s."""


def dynamic_config(*settings: str) -> list[str]:
    """The command-line arguments that set `key=value` pairs of dynamic configuration."""
    return [argument for setting in settings for argument in ("--dynamic-config-value", setting)]
