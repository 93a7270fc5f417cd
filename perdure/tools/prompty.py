"""The kind `prompty`: another agent as a tool, its declaration, and the start of its run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from ..agents import Agent, loaded_from, others_of, with_others
from ..declared_tools import RICH_KINDS, PromptyTool, Property, Tool
from ..errors import ConfigurationError, LoadError
from ..json_types import JsonView
from ..messages import Message
from ..options import RunOptions
from ..payloads.failures import require_recordable
from ..prompty.load import load
from ..prompty.portable import portable
from ..prompty.prepare import first_messages, instructions_by_path
from ..prompty.references import contained_path
from ..schema import object_schema
from ..settings.agent_file import settings_of
from ..settings.child_agents import TRANSFER, child_tools, handoffs_of, key_of, with_keys
from ..settings.delegates import with_delegates
from ..tool_calls import ChildRun, Handoff, PreparedRun
from .binding import bound_inputs
from .files import record_tools
from .kind import Asking, KindCall, Offering, RunStart, ToolKind, ToolOfferError

MAX_AGENTS = 100


class AgentFiles:
    """Finds agents by their paths, in one folder and those below it; `roots` are further allowed
    folders.

    `known` are agents that need not be read again.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None,
        roots: Sequence[str | os.PathLike[str]] = (),
        known: Mapping[str, Agent] | None = None,
    ) -> None:
        self._folder = None if folder is None else Path(folder).absolute()
        self._roots = [Path(root).resolve() for root in (self._folder, *roots) if root is not None]
        self._known = dict(known or {})
        self._followed: set[str] = set()
        self.found: dict[str, Agent] = {}
        """Path relative to the run's agent → agent without secrets, ready to be recorded."""
        self.absent: dict[str, str] = {}
        """The same for missing files → the path as written."""

    def find(self, agent: Agent, trail: tuple[str, ...] = ()) -> None:
        """Find all agents that the agent can reach; `trail` is the path to it.

        Raises LoadError for an invalid path or file, and for a circle of agents, and
        ConfigurationError for a literal secret. How deep agents call each other is limited when
        they do (`RunOptions.max_depth`).
        """
        for tool in child_tools(agent):
            key = key_of(tool.path)
            if tool.is_handoff:
                self._find_handoff(key, tool.path)
                continue
            path = (*trail, key)
            if key in trail and tool.mode == "agentic":
                raise LoadError(f"agents call each other in a circle: {' → '.join(path)}")
            child = self._agent(key, tool.path)
            if child is not None and tool.mode == "agentic" and key not in self._followed:
                self._followed.add(key)
                self.find(child, path)

    def _find_handoff(self, key: str, written: str) -> None:
        """Find an agent that the run may be handed over to: it adds no nesting, and may hand
        back.
        """
        is_new, other = key not in self.found, self._agent(key, written)
        if (
            other is not None and is_new
        ):  # Missing ones are reported after all have been looked for.
            self.find(other)

    def _agent(self, key: str, written: str) -> Agent | None:
        if key not in self.found and key not in self.absent:
            agent = self._known.get(key) or self._read(key)
            if agent is None:
                self.absent[key] = written
            else:
                self.found[key] = agent
            if len(self.found) > MAX_AGENTS:
                raise LoadError(f"the agent reaches more than {MAX_AGENTS} others")
        return self.found.get(key)

    def _read(self, key: str) -> Agent | None:
        """Return the agent of a file, as recorded; None without such a file."""
        if self._folder is None:
            return None
        path = contained_path(key, self._folder, self._roots)
        if not path.exists():
            return None
        loaded = load(path, allowed_file_roots=self._roots, defer_environment=True)
        try:
            settings_of(loaded)
            return with_keys(portable(record_tools(with_delegates(loaded), is_child=True)[0]), key)
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}: {error}") from error
        except LoadError as error:
            raise LoadError(f"{path}: {error}") from error


class PromptyKind(ToolKind):
    """Another agent as a tool. The call's activity renders its prompt; its run is a child of the
    calling run.
    """

    asks_others: ClassVar[bool] = True

    def asks(self, tool: Tool) -> bool:
        return not tool.is_handoff

    def problems(self, tool: Tool) -> Sequence[str]:
        assert isinstance(tool, PromptyTool)
        found: list[str] = []
        try:
            key_of(tool.path)
        except LoadError as error:
            found.append(f"path: {error}")
        if tool.perdure and tool.perdure.retries:
            found.append(
                "perdure.retries: an agent is not run again; its model calls are "
                "(RunOptions.max_llm_retries)"
            )
        return found

    def record(self, tool: Tool, start: RunStart) -> None:
        """Add the agents that the run can reach through the tool to those of the run.

        Files missing relative to the agent's own file are left to the workers. Raises as
        `AgentFiles.find` does.
        """
        if not start.is_child and start.folder is not None:
            itself = {loaded_from(start.agent).path: start.agent}
            files = AgentFiles(start.folder, start.roots, {**itself, **start.agents})
            files.find(Agent(tools=[tool]))
            start.agents.update(files.found)

    async def offer(self, tool: Tool, asking: Asking) -> Sequence[Offering]:
        """Return one function, whose parameters are the agent's inputs unless the tool declares its
        own.

        The agent is the one recorded when the run was started; only a file that was missing there
        is read in the worker's folder for prompts. Raises `ToolOfferError`.
        """
        assert isinstance(tool, PromptyTool)
        if tool.is_handoff:
            return [_handoff(tool, asking)]
        try:
            files = await asyncio.to_thread(_find, tool, asking)
            child = files.found[key_of(tool.path)]
            parameters = object_schema(_parameters(tool, child))
        except (ConfigurationError, ValueError, OSError) as error:
            raise ToolOfferError(str(error)) from error
        own = {key: agent for key, agent in files.found.items() if key not in asking.agents}
        return [
            Offering(
                name=tool.name,
                description=tool.description or child.description,
                parameters=parameters,
                execution=ChildRun(path=key_of(tool.path), mode=tool.mode, agents=own),
                takes_context=True,
            )
        ]

    async def execute(self, call: KindCall) -> PreparedRun:
        """Return the beginning of the agent's run. Raises the errors of `prepare`, and
        `PayloadTooLargeError`.
        """
        assert isinstance(call.tool, PromptyTool)
        others = others_of(call.agent)
        child = with_others(others[key_of(call.tool.path)], others)
        return await asyncio.to_thread(
            _prepared_run, call.tool, child, call.arguments, call.context.conversation
        )


def _handoff(tool: PromptyTool, asking: Asking) -> Offering:
    """Raises `ToolOfferError` for an agent that the run has not recorded."""
    key = key_of(tool.path)
    if key not in asking.agents:
        raise ToolOfferError(
            f"the run has not recorded the agent {tool.path!r}, which it is to go on as"
        )
    name = tool.name.removeprefix(TRANSFER)
    usual = f"Hand the conversation over to the agent {name}."
    reason = {"type": "string", "description": "Why, in a few words, for the agent that goes on."}
    return Offering(
        name=tool.name,
        description=tool.description or asking.agents[key].description or usual,
        parameters={"type": "object", "properties": {"reason": reason}},
        execution=Handoff(path=key),
    )


def _find(tool: PromptyTool, asking: Asking) -> AgentFiles:
    files = AgentFiles(asking.prompt_root, known=asking.agents)
    files.find(Agent(tools=[tool]))
    for path in files.absent.values():
        where = (
            "and the worker has no folder for prompts (create_worker(prompt_root=…), perdure "
            "worker --prompt-root)"
        )
        if asking.prompt_root is not None:
            where = f"nor under the worker's folder for prompts, {str(asking.prompt_root)!r}"
        raise LoadError(
            f"the agent's file {path!r} was not there when the run was started, {where}"
        )
    return files


def _parameters(tool: PromptyTool, child: Agent) -> list[Property]:
    """Return the model's parameters. Raises LoadError for an input that the agent requires and no
    one can give.
    """
    bound = tool.bindings or {}
    if tool.parameters is not None:
        return [prop for prop in tool.parameters if prop.name not in bound]
    inputs = [prop for prop in child.inputs or [] if prop.name not in bound]
    for prop in inputs:
        if prop.kind in RICH_KINDS and prop.required and prop.default is None:
            raise LoadError(
                f"the agent {tool.path!r} requires the input {prop.name!r} of kind {prop.kind}, "
                f"which no model can write: bind it to an input (bindings: {{{prop.name}: {{input: "
                f"…}}}})"
            )
    plain = [prop for prop in inputs if prop.kind not in RICH_KINDS]
    return [
        prop.model_copy(update={"required": prop.required and prop.default is None})
        for prop in plain
    ]


def _prepared_run(
    tool: PromptyTool, child: Agent, arguments: JsonView, before: Sequence[Message]
) -> PreparedRun:
    said, inputs = tool.perdure.message if tool.perdure else None, dict(arguments)
    messages: list[Message] = []
    if said is not None and all(prop.name != said for prop in child.inputs or []):
        messages = [Message.user(str(inputs.pop(said, "")))]
    messages = [*first_messages(child, inputs), *messages]
    at = len(messages) - (1 if messages and not messages[-1].instructs else 0)
    messages[at:at] = before
    others = handoffs_of(child, others_of(child))
    bound = bound_inputs([child, *others.values()], inputs, RunOptions())
    run = PreparedRun(
        messages=messages, inputs=bound, handoffs=instructions_by_path(others, inputs)
    )
    require_recordable(run, f"What the agent {tool.path!r} is to begin with")
    return run
