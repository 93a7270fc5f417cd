"""A worker's tools and hooks for a run, those it lacks, and the activities that give out
permits.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal

from temporalio import activity

from ..agents import Agent, declared_name
from ..declared_tools import FunctionTool
from ..errors import ConfigurationError, ToolNotRegisteredError
from ..guardrails import GuardrailPoint
from ..options import RunOptions
from ..protocol.activities import CONFIGURATION_ERROR, TOOL_PREFIX
from ..protocol.inventory import Inventory, MissingPart, UnavailableTool
from ..protocol.names import (
    IS_POLLED,
    PERMIT,
    tool_queue,
)
from ..protocol.run import PacedCall, QueueInput, paced_model, rate_queue
from ..protocol.signatures import UNDECIDABLE, vouch_keys
from ..providers.prices import VARIABLE, Prices, is_list_installed, names
from ..providers.rates import rate_name, require_rates
from ..providers.registry import model_problem
from ..redaction import get_logger, redacted_excerpt, redactor
from ..settings.mocks import mock_responses
from ..text import one_line
from ..tool_calls import ToolSpec, agents_in
from ..tools.dispatch import ToolBox
from ..tools.inventory import OfferProblem
from ..tools.kind import Asking
from .credentials import CredentialError, Credentials, UnknownCredentialError
from .hooks import Hooks
from .notices import VARIABLE as WEBHOOKS
from .notices import webhooks_of_worker
from .pollers import ACTIVITIES, somebody_polls
from .run_cache import KnownRun


@activity.defn(name=PERMIT)
async def permit() -> None:
    """Do nothing: the execution itself is the permit."""


@activity.defn(name=IS_POLLED)
async def is_polled(input: QueueInput) -> bool:
    """Return whether a worker gives out this queue's permits. Raises `RPCError`."""
    return await somebody_polls(activity.client(), input.task_queue, ACTIVITIES)


def checked_rates(rates: Mapping[str, float] | None) -> dict[str, float]:
    """Return the rates of a worker. Raises `ConfigurationError` for a rate that fits no model
    call.
    """
    for name in (checked := require_rates(rates or {})):
        problem = model_problem(name.split("/", 1)[0], "chat")
        if problem and problem.field == "provider":
            raise ConfigurationError(f"the rate {name!r}: {problem.text}")
    return checked


def paced_calls(rates: Mapping[str, float], agent: Agent, task_queue: str) -> dict[PacedCall, str]:
    """Return a run's calls that need a permit, with the task queue for it."""
    named = {
        paced_model(number): rate_name(rates, model.provider_key, model.id)
        for number, model in enumerate(agent.models)
    }
    return {call: rate_queue(task_queue, name) for call, name in named.items() if name}


_log = get_logger("perdure.worker")


@dataclass
class WorkerInventory:
    """A worker's inventory: its tools, hooks, prices and credentials."""

    toolbox: ToolBox
    hooks: Hooks
    prices: Prices
    credentials: Credentials
    prompt_root: str | PathLike[str] | None = None
    rates: Mapping[str, float] = field(default_factory=dict)
    """Model calls per second, by provider or model."""
    takes_any_tool: bool = True
    """Whether the worker has the dynamic activity, which executes tools whose names only runs
    know."""
    mock: bool = False
    """Whether agents may carry mock answers that replace the model's."""
    on_failure: Literal["fail", "hold"] | None = None
    """The default for runs that do not set `on_failure`."""

    async def for_run(self, run: KnownRun, *, may_ask: bool) -> Inventory:
        """Return the inventory with the owner's settings. Raises as `_for_run` does."""
        found = await self._for_run(run, may_ask=may_ask)
        webhooks = webhooks_of_worker() if os.environ.get(WEBHOOKS) else []
        return found.model_copy(update={"on_failure": self.on_failure, "webhooks": webhooks})

    async def _for_run(self, run: KnownRun, *, may_ask: bool) -> Inventory:
        """Return the worker's inventory for a run; with `may_ask`, kinds of tools may query servers
        for their tools.

        Raises ConfigurationError for declarations that do not fit their functions or kinds, and for
        models without a known price in a run with a cost limit.
        """
        if self.mock:
            run.mock_responses = _mock_responses(run)
        agent = run.agent
        if run.credential_ids:
            if not may_ask:
                return Inventory(unasked=["credentials"])
            try:
                agent = await self.credentials.for_inventory(run)
            except (UnknownCredentialError, CredentialError) as error:
                return Inventory(lacking=error.lack())
        asking = Asking(
            agent, run.inputs, self.prompt_root, run.agents, self.toolbox.allowed, run.deps
        )
        found = await _take_stock(self.toolbox, self.hooks, asking, run.options, may_ask=may_ask)
        if found.lacking:
            self.credentials.forget(
                run, agent
            )  # A server may have refused them: the next attempt asks anew.
        if run.options.max_cost_usd is not None and run.mock_responses is None:
            _require_prices(self.prices, run, agents_in(found.tools))
        named = {
            tool.name: declared_name(tool)
            for tool in found.offered
            if isinstance(tool, FunctionTool)
        }
        tools = [
            spec.model_copy(update=self._execution(spec, named.get(spec.name, spec.name)))
            for spec in found.tools
        ]
        rates = self.rates if run.mock_responses is None else {}
        paced = paced_calls(rates, run.agent, activity.info().task_queue)
        return found.model_copy(
            update={"tools": tools, "paced": paced, "mock_responses": run.mock_responses}
        )

    def _execution(self, spec: ToolSpec, function: str) -> dict[str, Any]:
        """Return the tool's activity and queue; `function` is its name on workers."""
        queue = tool_queue(activity.info().task_queue, function) if spec.max_parallel else None
        name = function if queue else spec.name
        named = (
            f"{TOOL_PREFIX}{name}" if self.takes_any_tool or name in self.toolbox.names else None
        )
        return {"activity": named, "queue": queue}


def _mock_responses(run: KnownRun) -> list[str] | None:
    answers: list[str] | None = redactor().value(
        mock_responses(os.environ, run.recorded_agent.name, is_called=run.is_called)
    )
    return answers


def _require_prices(prices: Prices, run: KnownRun, found: Mapping[str, Agent]) -> None:
    """Require a price for each model of the run and of the agents it can call: a cost limit needs
    them.
    """
    agents = [run.recorded_agent, *run.agents.values(), *found.values()]
    called = [each.with_fallback(number) for each in agents for number in range(len(each.models))]
    unknown = dict.fromkeys(
        "/".join(names(agent)) for agent in called if agent.model and not prices.knows(agent)
    )
    if unknown:
        models = ", ".join(unknown)
        example = f'{{"{next(iter(unknown))}": {{"input": 1.25, "output": 10}}}}'
        raise ConfigurationError(
            f"max_cost_usd={run.options.max_cost_usd:g} can't be held: no price is known for "
            f"{models}. Give the workers the prices of a million tokens: {VARIABLE}=FILE with "
            f"{example}, or create_worker(prices=…)"
            + (
                ""
                if is_list_installed()
                else "; or give them a list of prices: pip install 'perdure[prices]'"
            )
        )


async def _take_stock(
    toolbox: ToolBox, hooks: Hooks, asking: Asking, options: RunOptions, *, may_ask: bool
) -> Inventory:
    tools = await toolbox.inventory(asking, may_ask=may_ask)
    if tools.problems:
        raise ConfigurationError("\n".join(tools.problems))
    if tools.missing:
        return Inventory(lacking=_lacking_tools(tools.missing, toolbox.names))
    if lacking := lacking_hooks(hooks, options):
        return Inventory(lacking=lacking)
    if misfits := hooks.misfits(options, asking.deps):
        raise ConfigurationError("\n".join(misfits))
    if tools.unknown:
        return Inventory(lacking=_lacking_offers(tools.unknown))
    return Inventory(
        tools=tools.tools,
        hooks=hooks.kinds(options),
        offered=redactor(asking.agent).value(tools.offered),
        unasked=tools.unasked,
        unavailable=_unavailable(tools.unavailable, asking.agent),
        notes=_log_notes([*tools.notes, *_undecidable(tools.tools)]),
    )


def _undecidable(tools: Sequence[ToolSpec]) -> list[str]:
    """Return the tools with calls that nobody could decide about, because this worker has no key of
    gateways.
    """
    names = ", ".join(tool.name for tool in tools if tool.approvers and tool.approvers.needs_vouch)
    return [UNDECIDABLE.format(f"of {names}")] if names and not vouch_keys().keys else []


def _log_notes(notes: list[str]) -> list[str]:
    for note in notes:
        _log.warning(note)
    return notes


def _unavailable(found: Mapping[str, str], agent: Agent) -> list[UnavailableTool]:
    """Return the tools that the run does without, in the order of their declarations, and log
    them.
    """
    tools = [tool for tool in agent.tools or () if tool.name in found]
    for tool in tools:
        _log.warning(
            "The model is not offered the tool %r: %s",
            tool.name,
            redacted_excerpt(found[tool.name]),
        )
    return [
        UnavailableTool(
            name=tool.name, description=tool.description, why=redacted_excerpt(found[tool.name])
        )
        for tool in tools
    ]


def _lacking_offers(problems: Sequence[OfferProblem]) -> MissingPart:
    """Return the tools that could not be listed: another worker may be able to."""
    return MissingPart(
        what=[_untried_tool(problem) for problem in problems],
        kind=CONFIGURATION_ERROR,
        text="\n".join(redacted_excerpt(str(problem)) for problem in problems),
        task_queue=activity.info().task_queue,
    )


def _untried_tool(problem: OfferProblem) -> str:
    why = one_line(redacted_excerpt(problem.why), 240)
    return f"{problem.title}, which the first worker could not offer: {why}"


def lacking_tool(name: str, error: ToolNotRegisteredError, toolbox: ToolBox) -> MissingPart:
    """Return the tool that `ToolBox.resolve` did not find."""
    return _lacking_tools({name: ""}, toolbox.names, str(error))


def changed_tool(name: str, change: str) -> MissingPart:
    """Return a tool whose function takes other arguments than the run has recorded
    (`ToolBox.signature_change`).
    """
    return MissingPart(
        what=[f"tool {name} with the arguments that it took when the run began"],
        kind=ToolNotRegisteredError.kind,
        text=f"{change}. Start a worker with a function that takes those arguments",
        task_queue=activity.info().task_queue,
    )


def lacking_guardrail(
    hooks: Hooks, options: RunOptions, point: GuardrailPoint
) -> MissingPart | None:
    """Return the guardrail that this worker lacks although the run's first worker had it."""
    if lacking := lacking_hooks(hooks, options, "guardrails"):
        return lacking
    if hooks.judges(options.guardrails or "", point):
        return None
    guardrails = f"guardrails {options.guardrails!r}"
    return _lacking_configuration(
        [guardrails], f"the {guardrails} of this worker have none for the {point}"
    )


def lacking_mocks() -> MissingPart:
    """Return the lack of a worker that ignores mock answers, for a run that has some."""
    text = (
        "the run has mock answers in place of its model's, and this worker was not started to "
        "honour them: perdure worker --mock, or create_worker(mock=True)"
    )
    return _lacking_configuration(["mock answers"], text)


def lacking_hooks(hooks: Hooks, options: RunOptions, only: str = "") -> MissingPart | None:
    """Return the hooks of the options that this worker lacks; with `only`, of one kind."""
    missing = hooks.missing_names(options, only)
    return _lacking_configuration(list(missing), "; ".join(missing.values())) if missing else None


def _lacking_configuration(what: list[str], text: str) -> MissingPart:
    return MissingPart(
        what=what, kind=CONFIGURATION_ERROR, text=text, task_queue=activity.info().task_queue
    )


def _lacking_tools(
    missing: Mapping[str, str], registered: Sequence[str], text: str = ""
) -> MissingPart:
    """Return the missing tools; `missing` maps names to kinds, "" for an undeclared tool."""
    known = ", ".join(registered) or "none"
    tools = [f"{name} (kind: {kind})" if kind else name for name, kind in missing.items()]
    text = text or f"No handler registered for tool: {', '.join(tools)}"
    advice = []
    if any(kind in ("", "function") for kind in missing.values()):
        functions = ", ".join(name for name, kind in missing.items() if kind in ("", "function"))
        advice.append(
            f"Give them to the worker: tools=[{functions}] of invoke_agent and create_worker, or "
            "perdure worker --tools MODULE:NAME"
        )
    advice += [
        f"No tools of kind {kind!r} are known here: install the package that adds it on the "
        f"worker, or create_worker(tool_kinds={{{kind!r}: …}})"
        for kind in dict.fromkeys(missing.values())
        if kind not in ("", "function")
    ]
    return MissingPart(
        what=[f"tool {tool}" for tool in tools],
        kind=ToolNotRegisteredError.kind,
        text=f"{text}. This worker's tools: {known}. {'. '.join(advice)}",
        task_queue=activity.info().task_queue,
    )
