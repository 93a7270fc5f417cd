"""The search attributes by which Temporal's visibility finds perdure's runs."""

from __future__ import annotations

from temporalio.common import SearchAttributeKey

AGENT = SearchAttributeKey.for_keyword("PerdureAgent")
"""The name of the run's agent."""

ALL = (AGENT,)
"""What a namespace must know before a run starts: an upsert of an unknown one blocks its run for ever."""
