"""Builds an agent in code, equivalent to an agent file, with its functions and the type of its
answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import PurePath
from typing import Any

from ..agents import Agent, LoadedAgent, loaded_from, others_of, split_model, with_others
from ..errors import ConfigurationError
from ..guardrails import Instruct, PrepareTools
from ..prompty.jinja import parse_jinja, used_variables
from ..prompty.load import load_dict
from ..prompty.portable import portable
from ..prompty.render import find_markers
from ..providers.registry import require_ids
from ..settings.child_agents import SUFFIX
from ..settings.delegates import handoff_tool, with_delegates
from ..text import one_line
from ..tools.declaration import agent_with_tools, completed_declaration
from ..tools.files import record_tools
from ..tools.handlers import Toolset, toolset_of
from .output_type import with_output_type

_QUESTION = "\n\nuser:\n{{question}}\n"


def agent(
    model: str | Mapping[str, Any],
    *,
    instructions: str = "",
    tools: Toolset
    | Mapping[str, Callable[..., Any]]
    | Sequence[Callable[..., Any] | Toolset | Mapping[str, Any]] = (),
    output_type: Any = None,
    handoffs: Sequence[Agent | str | PathLike[str]] = (),
    output_validator: Callable[..., Any] | None = None,
    prepare_tools: PrepareTools | None = None,
    instructions_by: Instruct | str | None = None,
    name: str = "agent",
    description: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    connection: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    base_dir: str | PathLike[str] | None = None,
) -> Agent:
    """Return an agent built from these parts, accepted wherever the path of an agent file is.

    `model` is a model's id, after its provider if that is not OpenAI:
    `"anthropic/claude-sonnet-4-5"`; or a mapping, as in files. `instructions` are the body of a
    file: a template, whose text before the first role marker is the system message. Without a
    `user:` part, the user's message is the input `question`. `inputs` declare the inputs as files
    do; without them, each name that the template uses is a required text.

    `tools` are functions, toolsets, and declarations of other tools as in files: `{"name": "files",
    "kind": "mcp", …}`. `invoke_agent` and `run_in_process` get the functions with the agent; a
    worker gets them by `create_worker(client, tools=[agent])`. `output_type` is the type of the
    answer: see `start_run`. `output_validator` checks the answer as that of `Guardrails` does; a
    worker that has the agent finds it by the agent's name, for runs without other guardrails.
    `prepare_tools` is a function that decides before each model call which tools to offer
    (`perdure.prepare_tools`). `options` are the model's, such as `{"temperature": 0}`. Relative
    paths in declarations start at `base_dir`.

    `instructions_by` is a function, or the name of one on the workers, whose text follows the
    `instructions` in each run and each turn of a session: it gets the inputs as a dict, and a
    `ToolContext`, if it has parameters for them.

    `handoffs` are the agents to which a run of this one may hand over: agents, paths of files in
    `base_dir`, and names of agents in the `handoffs` of those, such as this one's own. Each needs a
    unique name.

    Raises LoadError for a wrong declaration, RenderError for a template that can't be read, and
    ConfigurationError for two tools of one name and for an `output_type` that models can't be
    asked for.
    """
    given, by = toolset_of(tools), _functions_by(instructions_by)
    own = dict((metadata or {}).get("perdure") or {})
    if output_validator is not None:
        own.setdefault("guardrails", name)
    if by:
        own["instructionsBy"] = next(iter(by))
    if prepare_tools is not None:
        own["prepareTools"] = prepare_tools.__name__
    body = instructions if _is_asked(instructions) else instructions + _QUESTION
    data: dict[str, Any] = {
        "name": name,
        "description": description,
        "model": {
            **_model(model),
            **({"options": options} if options else {}),
            **_connection(connection),
        },
        "inputs": inputs if inputs is not None else _inputs(body),
        "tools": given.declarations,
        "metadata": {**(metadata or {}), "perdure": own} if own else metadata,
        "instructions": body.lstrip(),
    }
    written = {key: value for key, value in data.items() if value is not None}
    loaded = agent_with_tools(
        load_dict(written, base_dir=base_dir, defer_environment=True), given.functions
    )
    require_ids(loaded)
    found = [
        completed_declaration(tool, given.functions[tool.name])
        if tool.name in given.functions
        else tool
        for tool in loaded.tools or ()
    ]
    loaded = loaded.model_copy(update={"tools": found or None})
    if output_type is not None:
        loaded = with_output_type(loaded, output_type)
    prepare = {
        **given.prepare_tools,
        **({prepare_tools.__name__: prepare_tools} if prepare_tools else {}),
    }
    origin: dict[str, Any] = {
        "instructions": {name: each for name, each in by.items() if each},
        "functions": given.functions,
        "output_type": output_type,
        "output_validator": output_validator,
        "prepare_tools": prepare,
        "path": f"{name}{SUFFIX}",
    }
    return with_handoffs(LoadedAgent.of(loaded, **origin), handoffs)


def with_handoffs(agent: Agent, handoffs: Sequence[Agent | str | PathLike[str]]) -> Agent:
    """Return the agent with a handoff tool for each of the other agents.

    Raises ConfigurationError for two agents or tools
    of one name, and the errors of `load`.
    """
    if not handoffs:
        return agent
    tools, others, known = (
        list(agent.tools or ()),
        dict(others_of(agent)),
        dict(loaded_from(agent).handoffs),
    )
    for each in handoffs:
        if isinstance(each, Agent):
            path, description = loaded_from(each).path or f"{each.name}{SUFFIX}", each.description
            _add_agents(others, path, each)
            known |= {path: loaded_from(each), **loaded_from(each).handoffs}
        else:
            path, description = fspath(each), None
            path = path if path.endswith(SUFFIX) else f"{path}{SUFFIX}"
        new = handoff_tool(PurePath(path).stem, path, description)
        if any(tool.name == new.name for tool in tools):
            raise ConfigurationError(
                f"there is a tool {new.name!r} already: give each agent of handoffs its own name"
            )
        tools.append(new)
    found = with_others(agent.model_copy(update={"tools": tools}), others)
    _require_one({**others}, loaded_from(agent).path, found)
    return LoadedAgent.of(found, handoffs=known)


def _add_agents(others: dict[str, Agent], path: str, agent: Agent) -> None:
    """Add the agent, as runs record it, and the agents to which it may hand over."""
    recorded, further = record_tools(with_delegates(agent))
    for key, other in {path: portable(recorded), **further}.items():
        _require_one(others, key, other)


def _require_one(others: dict[str, Agent], path: str, agent: Agent) -> None:
    """Add the agent by its path. Raises ConfigurationError if the path has another agent
    already.
    """
    if (other := others.setdefault(path, agent)) != agent:
        both = " and ".join(
            f"{each.models[0].name} "
            f"({one_line((each.instructions or '').strip().partition(chr(10))[0], 60)!r})"
            for each in (other, agent)
        )
        raise ConfigurationError(
            f"two different agents have the name {path.removesuffix(SUFFIX)!r}, {both}: give each "
            "its own name (name=… of perdure.agent)"
        )


def with_declared(agent: Agent, declarations: Sequence[Mapping[str, Any]]) -> Agent:
    """Return the agent with these tools added, except those that it declares itself.

    Raises LoadError for a wrong declaration.
    """
    declared = (
        load_dict({"tools": declarations}, defer_environment=True).tools if declarations else None
    )
    new = [tool for tool in declared or () if agent.tool(tool.name) is None]
    return agent.model_copy(update={"tools": [*(agent.tools or []), *new]}) if new else agent


def _functions_by(instructions_by: Any) -> dict[str, Instruct | None]:
    """Return the function by its name; None for one that only workers have."""
    if instructions_by is None:
        return {}
    if isinstance(instructions_by, str):
        return {instructions_by: None}
    return {instructions_by.__name__: instructions_by}


def _is_asked(instructions: str) -> bool:
    """Return whether the instructions contain a user's message."""
    return any(marker.role == "user" for marker in find_markers(instructions))


def _model(model: str | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(model, Mapping):
        return dict(model)
    provider, id = split_model(model)
    return {"id": id} if provider is None else {"provider": provider, "id": id}


def _connection(connection: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"connection": {"kind": "key", **connection}} if connection else {}


def _inputs(body: str) -> list[dict[str, Any]]:
    """Return a required text input for each name that the template uses, in its order."""
    used = used_variables(parse_jinja(body))
    return [
        {"name": name, "kind": "string", "required": True}
        for name in sorted(used, key=lambda name: used[name])
    ]
