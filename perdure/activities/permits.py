"""Permits for model calls: which calls of a run take one, and the activities that give them out."""

from __future__ import annotations

from collections.abc import Mapping

from temporalio import activity

from ..agent import Agent, Model
from ..guardrails import Compactor
from ..protocol.pacing import IS_POLLED, PERMIT, PacedCall, QueueInput, paced_model, rate_queue
from ..providers.availability import require_provider
from ..rates import rate_name, require_rates
from .pollers import ACTIVITIES, somebody_polls


@activity.defn(name=PERMIT)
async def permit() -> None:
    """Nothing: that it is executed is the permit."""


@activity.defn(name=IS_POLLED)
async def is_polled(input: QueueInput) -> bool:
    """Whether a worker gives out the permits of this queue. Raises `RPCError`."""
    return await somebody_polls(activity.client(), input.task_queue, ACTIVITIES)


def checked_rates(rates: Mapping[str, float] | None) -> dict[str, float]:
    """The rates of a worker. Raises `ConfigurationError` for one that no model call can have."""
    for name in (checked := require_rates(rates or {})):
        require_provider(name.split("/", 1)[0])
    return checked


def paced_calls(
    rates: Mapping[str, float], agent: Agent, compactor: Compactor | None, task_queue: str
) -> dict[PacedCall, str]:
    """The calls of a run that take a permit, with the task queue that gives it out. Raises what `load` raises."""
    if not rates:
        return {}
    named = {paced_model(number): _rate_of(rates, model) for number, model in enumerate(agent.models)}
    named["compactor"] = _rate_of_compactor(rates, compactor)
    return {call: rate_queue(task_queue, name) for call, name in named.items() if name}


def _rate_of(rates: Mapping[str, float], model: Model) -> str | None:
    return rate_name(rates, model.provider_key, model.id)


def _rate_of_compactor(rates: Mapping[str, float], compactor: Compactor | None) -> str | None:
    if compactor is None or callable(compactor):
        return None
    from ..prompty.load import load

    return _rate_of(rates, (compactor if isinstance(compactor, Agent) else load(compactor)).models[0])
