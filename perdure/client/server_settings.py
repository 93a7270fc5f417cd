"""The settings of a Temporal server that matter to perdure; `perdure docs operating` and compose
have the same.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerSetting:
    """A key of Temporal's dynamic configuration."""

    key: str
    value: int | bool | str
    """What perdure wants, as YAML writes it."""
    default: int | bool | str
    """What a server has that says nothing."""
    without: str
    """What is seen where the server keeps its default."""


SERVER_SETTINGS = (
    ServerSetting(
        "history.transferProcessorMaxPollRPS",
        200,
        20,
        "runs are slow: the server hands out only 20 tasks per second and shard, so steps wait for "
        "each other",
    ),
    ServerSetting(
        "history.timerProcessorMaxPollRPS",
        200,
        20,
        "timers (retries, deadlines, pacing) fire late when there are many",
    ),
    ServerSetting(
        "history.timerProcessorMaxTimeShift", "100ms", "1s", "each wait takes up to a second longer"
    ),
    ServerSetting(
        "history.MaxBufferedQueryCount",
        100,
        1,
        "if a run has several readers, such as two protocols of a gateway, all but one see events "
        "a second late",
    ),
    ServerSetting(
        "history.maxInFlightUpdatePayloads",
        2_000_000,
        20 * 1024 * 1024,
        "a session that gets several large messages at once is ended by the server: its answer "
        "exceeds 4 MiB",
    ),
    ServerSetting(
        "matching.enableFairness",
        True,
        False,
        "the server hands out tasks in the order of arrival, so a tenant with many runs delays all "
        "others",
    ),
    ServerSetting(
        "frontend.namespaceRPS.visibility",
        100,
        10,
        "lists, counts and gauges fail with RESOURCE_EXHAUSTED: all workers and commands of a "
        "namespace share this",
    ),
    ServerSetting(
        "frontend.namespaceCount",
        4000,
        1200,
        "polls and watchers beyond 1,200 at a time per frontend fail with RESOURCE_EXHAUSTED",
    ),
)
"""Each with what a server without it shows."""

MIN_RETENTION_HOURS = 72.0
"""`perdure setup` and `doctor` call less unfit."""
MIN_SERVER = (1, 31)
"""The oldest version of Temporal's server that has all that perdure uses."""


def setting(key: str) -> ServerSetting:
    """Return the setting of that key. Raises KeyError for an unknown one."""
    return {each.key: each for each in SERVER_SETTINGS}[key]
