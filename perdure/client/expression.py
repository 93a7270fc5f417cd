"""An agent in one expression, the same as that of a file: with its functions and the type of its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

from ..agents import Agent, LoadedAgent, split_model
from ..argument_types import is_list, of_type, require_tools, require_type
from ..prompty.jinja import parse_jinja, used_variables
from ..prompty.load import load_dict
from ..prompty.render import find_markers
from ..providers.registry import require_ids
from ..tools.declaration import agent_with_tools, completed_declaration
from ..tools.handlers import Toolset, toolset_of
from .output_type import with_output_type

_QUESTION = "\n\nuser:\n{{question}}\n"


def agent(
    model: str | Mapping[str, Any],
    *,
    instructions: str = "",
    tools: Toolset | Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any] | Toolset | Mapping[str, Any]] = (),
    output_type: Any = None,
    name: str = "agent",
    description: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    connection: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    base_dir: str | PathLike[str] | None = None,
) -> Agent:
    """Return the agent of these parts, for every function that takes the path of a file.

    `model` is a model's id, after its provider if that is not OpenAI: `"anthropic/claude-sonnet-4-5"`; or a mapping, as
    in files. `instructions` are what a file has below its properties: a template, whose text before the first role
    marker is the system's. Without a `user:` part, what the user says is the input `question`. `inputs` declare the
    inputs as files do; without them, those that the template uses are declared as required texts.

    `tools` are functions, toolsets, and declarations of other tools as in files: `{"name": "files", "kind": "mcp", …}`.
    The functions go along with the agent to `invoke_agent` and `run_in_process`; a worker has them by
    `create_worker(client, tools=[agent])`. `output_type` says what the answer is: see `start_run`. `options` are the
    model's, such as `{"temperature": 0}`. Relative paths in declarations start at `base_dir`.

    Raises TypeError for an argument of another type, LoadError for what is wrong with a declaration, RenderError for a
    template that can't be read, and ConfigurationError for two tools of one name and for an `output_type` that can't be
    asked of a model.
    """
    require_type("model", model, of_type("a text such as 'openai/gpt-5', or a mapping", str, Mapping))
    if isinstance(tools, Mapping) or not is_list(tools):
        require_tools(tools)
    require_type("instructions", instructions, of_type("a text", str))
    given = toolset_of(tools)
    body = instructions if _is_asked(instructions) else instructions + _QUESTION
    data: dict[str, Any] = {
        "name": name,
        "description": description,
        "model": {**_model(model), **({"options": options} if options else {}), **_connection(connection)},
        "inputs": inputs if inputs is not None else _inputs(body),
        "tools": given.declarations,
        "metadata": metadata,
        "instructions": body.lstrip(),
    }
    written = {key: value for key, value in data.items() if value is not None}
    loaded = agent_with_tools(load_dict(written, base_dir=base_dir, defer_environment=True), given.functions)
    require_ids(loaded)
    found = [
        completed_declaration(tool, given.functions[tool.name]) if tool.name in given.functions else tool
        for tool in loaded.tools or ()
    ]
    loaded = loaded.model_copy(update={"tools": found or None})
    if output_type is not None:
        loaded = with_output_type(loaded, output_type)
    return LoadedAgent.of(loaded, functions=given.functions, output_type=output_type)


def with_declared(agent: Agent, declarations: Sequence[Mapping[str, Any]]) -> Agent:
    """Return the agent with these tools, too, as far as it does not declare them itself.

    Raises LoadError for what is wrong with a declaration.
    """
    declared = load_dict({"tools": declarations}, defer_environment=True).tools if declarations else None
    new = [tool for tool in declared or () if agent.tool(tool.name) is None]
    return agent.model_copy(update={"tools": [*(agent.tools or []), *new]}) if new else agent


def _is_asked(instructions: str) -> bool:
    """Return whether a user says something in them."""
    return any(marker.role == "user" for marker in find_markers(instructions))


def _model(model: str | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(model, Mapping):
        return dict(model)
    provider, id = split_model(model)
    return {"id": id} if provider is None else {"provider": provider, "id": id}


def _connection(connection: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"connection": {"kind": "key", **connection}} if connection else {}


def _inputs(body: str) -> list[dict[str, Any]]:
    """Return a required text for each name that the template uses, in its order."""
    used = used_variables(parse_jinja(body))
    return [{"name": name, "kind": "string", "required": True} for name in sorted(used, key=lambda name: used[name])]
