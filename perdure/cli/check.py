"""`perdure check`: finds open runs that would break with new tools, before you deploy these."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError

from ..agents import Agent, Model
from ..errors import ConfigurationError, RunNotFound, ToolNotRegisteredError
from ..guardrails import instruct_functions, prepare_functions
from ..history.events import decode
from ..history.link import read_beginning, read_start
from ..options import RunOptions
from ..protocol.inventory import RecordedTool
from ..protocol.names import SESSION_WORKFLOW, WORKFLOW
from ..protocol.run import RunInput
from ..protocol.search_attributes import quote
from ..protocol.session import SessionInput, SessionSetup
from ..settings.agent_file import options_after_handoff
from ..settings.child_agents import handoffs_of
from ..text import count_of, one_line
from ..tool_calls import RecordedSignature, ToolSpec
from ..tools.dispatch import ToolBox
from .console import answer, say
from .given import Given
from .problems import DONE, FAILED
from .server_connection import connect_to_server
from .user_code import UserCode, load_user_code, sources_of

AT_A_TIME = 10
OPEN_RUNS = f"WorkflowType IN ('{WORKFLOW}', '{SESSION_WORKFLOW}') AND ExecutionStatus = 'Running'"


class Need(NamedTuple):
    """The needs of an open run, or of a session's next turn."""

    run: str
    agent: Agent
    signatures: Mapping[str, RecordedSignature]
    """The signatures of the tools' functions when the run began, by name."""
    options: RunOptions
    restricted: tuple[str, ...] = ()
    """Tools whose calls need a decision by a person for whom a gateway vouches."""
    is_mocked: bool = False
    """Whether mock answers replace those of its models."""
    later: tuple[Need, ...] = ()
    """The needs of the agents to which the run may hand over."""

    @property
    def models(self) -> Sequence[Model]:
        """The models that may be called."""
        return () if self.is_mocked else self.agent.models

    @property
    def recorded_tools(self) -> list[RecordedTool]:
        """Its tools whose functions were recorded when it began."""
        return [
            RecordedTool(tool=each, signature=signature)
            for each in self.agent.tools or ()
            if (signature := self.signatures.get(each.name))
        ]

    @property
    def functions(self) -> list[str]:
        """Names of its tools that need a function of that name."""
        return [tool.name for tool in self.agent.tools or () if tool.kind == "function"]


class Break(NamedTuple):
    """The reason why a run would break with the tools."""

    run: str
    why: str
    """For programs: `missing`, `signature`, `kind`, `guardrails`, `instructions`, `prepare_tools`,
    `compactor`, or `unread` for a run that can't be read.
    """
    text: str
    tool: str = ""


async def needs_of(client: Client, runs: Sequence[WorkflowExecution]) -> list[Need | Break]:
    """Return the needs of the runs and sessions; a `Break` for one that can't be read, such as an
    encrypted one.
    """
    free = asyncio.Semaphore(AT_A_TIME)

    async def read(run: WorkflowExecution) -> Need | Break | None:
        async with free:
            return await _need(client, run)

    return [need for need in await asyncio.gather(*map(read, runs)) if need is not None]


async def _need(client: Client, run: WorkflowExecution) -> Need | Break | None:
    try:
        if run.workflow_type == SESSION_WORKFLOW:
            started = await read_start(client, run.id, run.run_id)
            setup = (await decode(client, started.input.payloads, SessionInput)).setup
            return Need(run.id, setup.agent, {}, setup.options, later=later_needs(run.id, setup))
        input, inventory, _ = await read_beginning(client, run.id, run.run_id)
    except RPCError:
        return None  # it has ended meanwhile
    except (ConfigurationError, RunNotFound, ValueError) as error:
        return Break(run.id, "unread", f"it can't be read here: {one_line(str(error), 200)}")
    tools = inventory.tools if inventory else []
    signatures = {tool.name: tool.signature for tool in tools if tool.signature}
    restricted = tuple(tool.name for tool in tools if tool.approvers and tool.approvers.needs_vouch)
    is_mocked = bool(inventory and inventory.mock_responses is not None)
    return Need(
        run.id,
        input.agent,
        signatures,
        input.options,
        restricted,
        is_mocked,
        later_needs(run.id, input),
    )


def later_needs(run: str, setup: RunInput | SessionSetup) -> tuple[Need, ...]:
    """Return the needs of the agents to which the run, or the session's next one, may hand over."""
    others = handoffs_of(setup.agent, setup.agents).values()
    return tuple(
        Need(run, each, {}, options_after_handoff(setup.options, setup.agent, each, setup.given))
        for each in others
        if each != setup.agent
    )


def undeclared(tools: Mapping[str, Callable[..., Any]]) -> list[str]:
    """Return the names of the functions that do not declare whether a call may be repeated."""
    specs = [
        getattr(function, "__tool_spec__", None) or ToolSpec(name=name)
        for name, function in tools.items()
    ]
    named = zip(tools, specs, strict=True)
    return sorted(name for name, spec in named if spec.idempotent and not spec.safe_to_repeat)


def breaks(need: Need, code: UserCode, toolbox: ToolBox) -> Iterator[Break]:
    """Yield the reasons why the run would break with this code."""
    for tool in need.agent.tools or ():
        why, text = "missing", f"the tool {tool.name!r} is missing"
        if tool.kind != "function":
            why, text = "kind", f"the kind {tool.kind!r} of the tool {tool.name!r} is missing"
        try:
            handler = toolbox.resolve(tool.name, need.agent)
        except ToolNotRegisteredError:
            yield Break(need.run, why, text, tool.name)
            continue
        if change := toolbox.signature_change(handler, need.signatures.get(tool.name)):
            yield Break(need.run, "signature", change, tool.name)
    undecorated, options = "no function {!r} of --tools has the decorator @perdure.", need.options
    for why, name, known, text in (
        ("guardrails", options.guardrails, code.guardrails, "the guardrails {!r} are missing"),
        ("instructions", options.instructions_by, instruct_functions, f"{undecorated}instructions"),
        ("prepare_tools", options.prepare_tools, prepare_functions, f"{undecorated}prepare_tools"),
        ("compactor", options.compactor, code.compactors, "the compactor {!r} is missing"),
    ):
        if name is not None and name not in known:
            yield Break(need.run, why, text.format(name))


async def check(given: Given) -> int:
    """Print the breaks; return the exit code."""
    code = load_user_code(sources_of(given))
    toolbox = ToolBox(code.tools, registered=not code.names_its_tools)
    queue = f" AND TaskQueue = {quote(given.task_queue)}" if given.task_queue else ""
    async with connect_to_server() as server:
        found_runs = server.client.list_workflows(f"{OPEN_RUNS}{queue}", limit=given.limit)
        runs = [run async for run in found_runs]
        found = [*_all_breaks(await needs_of(server.client, runs), code, toolbox)]
    unsaid = undeclared(code.tools)
    if given.as_json:
        breaks = [each._asdict() for each in found]
        answer({"openRuns": len(runs), "breaks": breaks, "undeclared": unsaid})
    for each in [] if given.as_json else found:
        answer(f"{each.run}: {each.text}")
    if unsaid:
        say(
            "These functions declare neither `idempotent` nor `reconcile`, so perdure repeats a "
            f"call of them after a crash: {', '.join(unsaid)}"
        )
    broken = len({each.run for each in found})
    say(f"{broken} of {count_of(len(runs), 'open run')} would break", "bad" if broken else "strong")
    return FAILED if found else DONE


def _all_breaks(needs: Iterable[Need | Break], code: UserCode, toolbox: ToolBox) -> Iterator[Break]:
    for need in needs:
        if isinstance(need, Break):
            yield need
        else:
            yield from dict.fromkeys(
                found for each in (need, *need.later) for found in breaks(each, code, toolbox)
            )
