"""The search attributes of runs, by which Temporal lists them."""

from __future__ import annotations

from temporalio.common import SearchAttributeKey

AGENT = SearchAttributeKey.for_keyword("PerdureAgent")
"""The name of the run's agent."""

STATUS = SearchAttributeKey.for_keyword("PerdureStatus")
"""Where the run stands: running, waiting (for a person), done, failed, cancelled."""

TENANT = SearchAttributeKey.for_keyword("PerdureTenant")
"""On whose behalf the run is (`start_run`)."""

SESSION = SearchAttributeKey.for_keyword("PerdureSession")
"""The conversation of several runs that the run belongs to."""

ORIGIN = SearchAttributeKey.for_keyword("PerdureOrigin")
"""What has started the run: another run, a schedule, a protocol's door."""

COST = SearchAttributeKey.for_float("PerdureCost")
"""What the run has cost, in US dollars."""

ALL = (AGENT, STATUS, TENANT, SESSION, ORIGIN, COST)
"""These must be registered in a namespace before a run starts there: to upsert an unknown one blocks a run for ever."""
