"""The search attributes of runs, by which Temporal lists them."""

from __future__ import annotations

from temporalio.common import SearchAttributeKey

AGENT = SearchAttributeKey.for_keyword("PerdureAgent")
"""The name of the run's agent."""

STATUS = SearchAttributeKey.for_keyword("PerdureStatus")
"""The run's state: running, waiting (for a person), held, done, failed, cancelled."""

TENANT = SearchAttributeKey.for_keyword("PerdureTenant")
"""The tenant that the run acts for (`start_run`)."""

SESSION = SearchAttributeKey.for_keyword("PerdureSession")
"""The conversation that the run and other runs belong to."""

ORIGIN = SearchAttributeKey.for_keyword("PerdureOrigin")
"""The starter of the run: the id of another run (its caller, or the origin of a fork), a schedule, or a protocol of the
gateway; `DIRECT` for anything else. Each run has one."""

DIRECT = "direct"
"""The origin of a run that a program or a person started directly."""

COST = SearchAttributeKey.for_float("PerdureCost")
"""The run's cost, in US dollars."""

ALL = (AGENT, STATUS, TENANT, SESSION, ORIGIN, COST)
"""Register these in a namespace before a run starts there: upserting an unknown one blocks a run for ever."""


MAX_KEYWORD_CHARS = 255
"""The limit of Temporal's databases."""


def keyword(text: str) -> str:
    """The text, cut to the length of a keyword."""
    return text[:MAX_KEYWORD_CHARS]


def quote(text: str) -> str:
    """The text as a literal of Temporal's queries: a backslash escapes there, so doubling the quotes is not enough."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
