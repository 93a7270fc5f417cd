"""`perdure check`: finds open runs that would break with new tools, before you deploy these."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import typer
from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError

from ..agents import Agent, Model
from ..errors import ConfigurationError, ToolNotRegisteredError
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
from . import shared_options as options
from .command import execute
from .console import answer, say
from .problems import DONE, FAILED
from .server_connection import connect_to_server
from .user_code import UserCode, load_user_code

AT_A_TIME = 10


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
        tools, signatures = self.agent.tools or (), self.signatures
        return [
            RecordedTool(tool=each, signature=signatures[each.name])
            for each in tools
            if each.name in signatures
        ]

    @property
    def functions(self) -> list[str]:
        """Names of its tools that need a function of that name."""
        return [tool.name for tool in self.agent.tools or () if tool.kind == "function"]

    @property
    def guardrails(self) -> list[str]:
        """Names of the guardrails, none or one."""
        return [self.options.guardrails] if self.options.guardrails else []

    @property
    def compactors(self) -> list[str]:
        """Names of the compactors, none or one."""
        return [self.options.compactor] if self.options.compactor else []


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
    except (ConfigurationError, ValueError) as error:
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
    others = [
        each for each in handoffs_of(setup.agent, setup.agents).values() if each != setup.agent
    ]
    options = [
        options_after_handoff(setup.options, setup.agent, each, setup.given) for each in others
    ]
    return tuple(Need(run, each, {}, chosen) for each, chosen in zip(others, options, strict=True))


def undeclared(tools: Mapping[str, Callable[..., Any]]) -> list[str]:
    """Return the names of the functions that do not declare whether a call may be repeated."""
    specs = {
        name: getattr(function, "__tool_spec__", None) or ToolSpec(name=name)
        for name, function in tools.items()
    }
    return sorted(
        name for name, spec in specs.items() if spec.idempotent and not spec.safe_to_repeat
    )


def breaks(need: Need, code: UserCode, toolbox: ToolBox) -> Iterator[Break]:
    """Yield the reasons why the run would break with this code."""
    for tool in need.agent.tools or ():
        try:
            handler = toolbox.resolve(tool.name, need.agent)
        except ToolNotRegisteredError:
            if tool.kind == "function":
                yield Break(need.run, "missing", f"the tool {tool.name!r} is missing", tool.name)
            else:
                yield Break(
                    need.run,
                    "kind",
                    f"the kind {tool.kind!r} of the tool {tool.name!r} is missing",
                    tool.name,
                )
            continue
        if change := toolbox.signature_change(handler, need.signatures.get(tool.name)):
            yield Break(need.run, "signature", change, tool.name)
    for name in need.guardrails:
        if name not in code.guardrails:
            yield Break(need.run, "guardrails", f"the guardrails {name!r} are missing")
    decorated: dict[str, tuple[str | None, Mapping[str, Any]]] = {
        "instructions": (need.options.instructions_by, instruct_functions),
        "prepare_tools": (need.options.prepare_tools, prepare_functions),
    }
    for what, (named, known) in decorated.items():
        if named is not None and named not in known:
            text = f"no function {named!r} of --tools has the decorator @perdure.{what}"
            yield Break(need.run, what, text)
    for name in need.compactors:
        if name not in code.compactors:
            yield Break(need.run, "compactor", f"the compactor {name!r} is missing")


def check(
    tools: options.Tools = None,
    guardrails: options.GuardrailNames = None,
    compactor: options.Compactors = None,
    task_queue: Annotated[
        str | None,
        typer.Option("--task-queue", metavar="NAME", help="Only runs on this queue; default: all."),
    ] = None,
    limit: Annotated[
        int,
        typer.Option("--limit", "-n", min=1, help="The maximum number of open runs to examine."),
    ] = 10_000,
    as_json: options.AsJson = False,
) -> None:
    """List open runs and sessions that would break with other tools.

    Each run's needs are compared with the options for the new workers: tools, the recorded
    signatures of their functions, kinds of tools, guardrails and compactors. Exit code 1 if a run
    would break. Functions that do not declare whether a call may be repeated are listed too.
    """
    code = load_user_code(tools or (), guardrails or (), compactor or (), [])
    execute(_check(code, task_queue, limit, as_json))


async def _check(code: UserCode, task_queue: str | None, limit: int, as_json: bool) -> int:
    toolbox = ToolBox(code.tools, registered=not code.names_its_tools)
    where = f" AND TaskQueue = {quote(task_queue)}" if task_queue else ""
    query = (
        f"WorkflowType IN ('{WORKFLOW}', '{SESSION_WORKFLOW}') AND ExecutionStatus = "
        f"'Running'{where}"
    )
    async with connect_to_server() as server:
        runs = [run async for run in server.client.list_workflows(query, limit=limit)]
        found = [*_all_breaks(await needs_of(server.client, runs), code, toolbox)]
    unsaid = undeclared(code.tools)
    if as_json:
        answer(
            {
                "openRuns": len(runs),
                "breaks": [each._asdict() for each in found],
                "undeclared": unsaid,
            }
        )
    for each in [] if as_json else found:
        answer(f"{each.run}: {each.text}")
    if unsaid:
        say(
            "These functions say neither `idempotent` nor `reconcile`: they count as safe to "
            "repeat, whatever became "
            f"of a call: {', '.join(unsaid)}"
        )
    broken = len({each.run for each in found})
    say(f"{count_of(broken, 'open run')} of {len(runs)} would break", "bad" if broken else "strong")
    return FAILED if found else DONE


def _all_breaks(needs: Iterable[Need | Break], code: UserCode, toolbox: ToolBox) -> Iterator[Break]:
    for need in needs:
        if isinstance(need, Break):
            yield need
        else:
            yield from dict.fromkeys(
                found for each in (need, *need.later) for found in breaks(each, code, toolbox)
            )
