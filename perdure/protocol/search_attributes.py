"""The search attributes of runs, by which Temporal lists them."""

from __future__ import annotations

from temporalio.common import SearchAttributeKey

AGENT = SearchAttributeKey.for_keyword("PerdureAgent")
"""The name of the run's agent."""

STATUS = SearchAttributeKey.for_keyword("PerdureStatus")
"""Where the run stands: running, waiting (for a person), held, done, failed, cancelled."""

TENANT = SearchAttributeKey.for_keyword("PerdureTenant")
"""On whose behalf the run is (`start_run`)."""

SESSION = SearchAttributeKey.for_keyword("PerdureSession")
"""The conversation of several runs that the run belongs to."""

ORIGIN = SearchAttributeKey.for_keyword("PerdureOrigin")
"""What has started the run: the id of another run (its caller, or the origin of a fork), a schedule, a protocol's door;
`DIRECT` for anything else. Each run has one."""

DIRECT = "direct"
"""The origin of a run that a program or a person has started for its own sake."""

COST = SearchAttributeKey.for_float("PerdureCost")
"""What the run has cost, in US dollars."""

ALL = (AGENT, STATUS, TENANT, SESSION, ORIGIN, COST)
"""These must be registered in a namespace before a run starts there: to upsert an unknown one blocks a run for ever."""


MAX_KEYWORD_CHARS = 255
"""What Temporal's databases take."""


def keyword(text: str) -> str:
    """The text, as short as a keyword may be."""
    return text[:MAX_KEYWORD_CHARS]


def quote(text: str) -> str:
    """The text as Temporal's queries have it: a backslash escapes there, so that doubling quotes is not enough."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
