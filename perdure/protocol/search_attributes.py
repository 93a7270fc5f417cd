"""The search attributes of runs, by which Temporal lists them."""

from __future__ import annotations

from temporalio.common import SearchAttributeKey

AGENT = SearchAttributeKey.for_keyword("PerdureAgent")
"""The name of the run's agent."""

TENANT = SearchAttributeKey.for_keyword("PerdureTenant")
"""On whose behalf the run is (`start_run`)."""

ALL = (AGENT, TENANT)
"""These must be registered in a namespace before a run starts there: to upsert an unknown one blocks a run for ever."""
