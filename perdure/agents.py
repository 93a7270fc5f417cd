"""The typed form of a `.prompty` file before anything is rendered (§2), and models as one text,
`PROVIDER/ID`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

from pydantic import Field, PlainSerializer, PrivateAttr, field_validator

from .declared_tools import (
    RICH_KINDS,
    Binding,
    Connection,
    CustomTool,
    FunctionTool,
    McpApprovalMode,
    McpTool,
    Node,
    OfferedFunction,
    OpenApiTool,
    PromptyTool,
    Property,
    PropertyKind,
    Tool,
    ToolPolicy,
)
from .messages import JsonObject

__all__ = [
    "RICH_KINDS",
    "Agent",
    "Binding",
    "Connection",
    "CustomTool",
    "EnvReference",
    "FormatConfig",
    "FunctionTool",
    "LoadedAgent",
    "LoadedFrom",
    "McpApprovalMode",
    "McpTool",
    "Model",
    "ModelOptions",
    "Node",
    "OfferedFunction",
    "OpenApiTool",
    "ParserConfig",
    "PromptyTool",
    "Property",
    "PropertyKind",
    "RecordedAgent",
    "RecordedAgents",
    "RunAgent",
    "Template",
    "Tool",
    "ToolPolicy",
]


def declared_name(tool: Tool) -> str:
    """Return the name that the file declares for a tool that the model is offered."""
    return (tool.of if isinstance(tool, FunctionTool | OfferedFunction) else None) or tool.name


DEFAULT_PROVIDER = "openai"


PromptCache = Literal["off", "5m", "1h"]
"""The lifetime of entries in a provider's prompt cache."""


class ModelOptions(Node):
    """Sampling options under Prompty's names (§2.5); each provider translates those that it has
    (§7).
    """

    temperature: float | None = None
    """How varied the answers are."""
    max_output_tokens: int | None = None
    """The most tokens of one answer."""
    top_p: float | None = None
    """The share of the probable tokens that are sampled."""
    top_k: int | None = None
    """The number of the most probable tokens that are sampled."""
    frequency_penalty: float | None = None
    """The penalty for a token, for each time that it occurred."""
    presence_penalty: float | None = None
    """The penalty for a token that occurred at least once."""
    seed: int | None = None
    """A number that makes answers repeatable, if the provider supports it."""
    stop_sequences: list[str] | None = None
    """Texts at which the answer ends."""
    allow_multiple_tool_calls: bool | None = None
    """Whether one reply may ask for several tools."""
    prompt_cache: PromptCache | None = None
    """The lifetime in the provider's prompt cache: `5m`, `1h`, or `off` for no caching. The default
    is `5m` for a run that can make a second call."""
    dialect: str | None = None
    """The server's dialect, such as `mistral` or `vllm`, if its address does not determine it."""
    additional_properties: dict[str, Any] | None = None
    """Further parameters of the provider's own request, under its own names."""

    @field_validator("prompt_cache", mode="before")
    @classmethod
    def _read_switch(cls, value: Any) -> Any:
        """Accept `off` without quotes, which YAML reads as a boolean."""
        return "off" if value is False else value


class Model(Node):
    """A model and its provider (§2.3)."""

    id: str = ""
    """The model, or with Azure the deployment, as the provider's API names it."""
    provider: str | None = None
    """The provider; `openai` by default."""
    api_type: str = "chat"
    """The provider's API: `chat` or, with `openai`, `azure` and `foundry`, `responses`."""
    connection: Connection | None = None
    """The server's address and key."""
    options: ModelOptions | None = None
    """Sampling options, and others for each call."""
    fallback: list[Model] | None = None
    """Other models, one of which is called if this one refuses or does not answer."""

    @field_validator("fallback")
    @classmethod
    def _have_one_list(cls, fallback: list[Model] | None) -> list[Model] | None:
        if any(other.fallback for other in fallback or ()):
            raise ValueError(
                "a fallback model can't have a `fallback`: write all models into one list"
            )
        return fallback

    @property
    def name(self) -> str:
        """`PROVIDER/ID`."""
        return f"{self.provider_key}/{self.id}"

    @property
    def provider_key(self) -> str:
        """The provider's key; the default one if the file does not name any."""
        return self.provider or DEFAULT_PROVIDER


class FormatConfig(Node):
    """The rendering of the instructions (§2.7)."""

    kind: str = "jinja2"
    """The template language: `jinja2` or `nunjucks`."""
    strict: bool = True
    """Whether role markers in the text of an input are refused (§6.3, ruling §18-5)."""
    options: dict[str, Any] | None = None
    """Kept, but without effect."""


class ParserConfig(Node):
    """The parsing of the rendered text into messages (§2.7)."""

    kind: str = "prompty"
    """The notation of roles: `prompty`."""
    options: dict[str, Any] | None = None
    """Kept, but without effect."""


class Template(Node):
    """The way from instructions to messages (§2.7)."""

    format: FormatConfig = Field(default_factory=FormatConfig)
    """The rendering of the body."""
    parser: ParserConfig = Field(default_factory=ParserConfig)
    """The parsing of the rendered text."""


@dataclass(frozen=True)
class EnvReference:
    """A `${env:NAME}` in the file (§2.10), and its value when the file was loaded."""

    text: str
    value: str = field(repr=False)


class _AgentType(type(Node)):  # type: ignore[misc]
    """Makes `Agent("openai/gpt-5", …)` the same as `perdure.agent("openai/gpt-5", …)`.

    Not an `__init__`, which pydantic would call for each agent that it reads.
    """

    if not TYPE_CHECKING:

        def __call__(cls, *model: Any, **parts: Any) -> Any:
            tools = parts.get("tools") or ()
            if model or isinstance(parts.get("model"), str | Mapping) or any(map(callable, tools)):
                return import_module(__package__).agent(*model, **parts)
            return super().__call__(**parts)


class Agent(Node, metaclass=_AgentType):
    """A loaded `.prompty` file, or the same in an expression: `Agent("openai/gpt-5", …)` is
    `agent("openai/gpt-5", …)`.

    Immutable by convention: change a copy (`model_copy`).
    """

    if TYPE_CHECKING:

        def __init__(
            self, model: Model | str | Mapping[str, Any] | None = None, /, **parts: Any
        ) -> None: ...

    name: str = ""
    """Names the run, its activities and its traces."""
    display_name: str | None = None
    """The name for people."""
    description: str | None = None
    """The agent's purpose: for people, and for a model that may call this agent as a tool."""
    metadata: dict[str, Any] | None = None
    """Any other data. Its key `perdure` holds settings of runs."""
    model: Model | None = None
    """The model that answers."""
    inputs: list[Property] | None = None
    """The inputs of the template."""
    outputs: list[Property] | None = None
    """The fields of the answer, which is then an object; without them it is a text."""
    tools: list[Tool] | None = None
    """The tools that the model may call."""
    template: Template | None = None
    """The way from the body to messages."""
    instructions: str = ""
    """The body, after the front matter."""

    def tool(self, name: str) -> Tool | None:
        """Return the declared tool of that name, or None."""
        for tool in self.tools or ():
            if tool.name == name:
                return tool
        return None

    @property
    def models(self) -> list[Model]:
        """The agent's model, then those of its `fallback`; at least one."""
        model = self.model or Model()
        return [model, *(model.fallback or ())]

    def with_only(self, offered: Mapping[str, str | None] | None) -> Agent:
        """Copy that declares only these tools, with these descriptions, and the provider's own
        tools; the agent itself for None.
        """
        if offered is None:
            return self
        tools = [
            tool.model_copy(update={"description": offered[tool.name]})
            if tool.name in offered
            else tool
            for tool in self.tools or ()
            if tool.name in offered or tool.kind == "provider"
        ]
        return self.model_copy(update={"tools": tools})

    def with_fallback(self, number: int) -> Agent:
        """Copy whose model is the one at this index of `models`; the agent itself for 0. Raises
        IndexError if it has fewer.
        """
        return self.model_copy(update={"model": self.models[number]}) if number else self

    def source(self, tool: Tool) -> Tool:
        """The file's declaration of this tool; the tool itself if it is offered as declared."""
        return tool

    def with_declarations(self, tools: Sequence[Tool]) -> Agent:
        """Return a copy in which these declarations replace those of the same names; the agent
        itself if there are none.

        Offered functions replace the tool that offers them, which `source` still returns.
        """
        if not tools:
            return self
        replaced: dict[str, list[Tool]] = {}
        for tool in tools:
            replaced.setdefault(declared_name(tool), []).append(tool)
        declared = [each for tool in self.tools or [] for each in replaced.get(tool.name, [tool])]
        copy = RunAgent.of(self.model_copy(update={"tools": declared}))
        copy._sources = {
            **copy._sources,
            **{tool.name: tool for tool in self.tools or [] if tool.name in replaced},
        }
        return copy


@dataclass(frozen=True)
class LoadedFrom:
    """The origin of an agent: knowledge of the process that loaded it, which no record contains."""

    references: Mapping[str, EnvReference] = field(default_factory=dict)
    """JSON pointer → the reference at that place; its text is recorded instead of the value."""
    base_dir: str | None = None
    """The folder that relative paths start from; None for an agent that does not come from a
    file."""
    path: str = ""
    """The path by which other agents name this one: the file's name in that folder; "" if it has
    none."""
    roots: tuple[str, ...] = ()
    """Further folders from which the agent's own file may read files."""
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """The functions passed with the agent in Python (`perdure.agent`), by the names of their
    tools."""
    output_type: Any = None
    """The type of its answer, if passed with the agent in Python."""
    instructions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """The function for its instructions, if passed with the agent in Python, by its name."""
    handoffs: Mapping[str, LoadedFrom] = field(default_factory=dict)
    """The same for the Python agents that a run of this one may hand over to, by path."""
    output_validator: Callable[..., Any] | None = None
    """The function that checks its answer, if passed with the agent in Python."""
    prepare_tools: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """The function that chooses the offered tools, by its name, if passed with the agent in
    Python."""


class LoadedAgent(Agent):  # type: ignore[metaclass]
    """An agent with its origin. Its JSON is that of an `Agent`, and is read as an `Agent`."""

    _loaded_from: LoadedFrom = PrivateAttr(default=LoadedFrom())

    @classmethod
    def of(cls, agent: Agent, **known: Any) -> Self:
        """Return a copy of this class with these fields of `LoadedFrom`."""
        copy: Any = (
            agent
            if isinstance(agent, cls)
            else cls.model_construct(agent.model_fields_set, **dict(agent))
        )
        copy = copy.model_copy()
        copy._loaded_from = replace(loaded_from(agent), **known)
        return cast(Self, copy)


def loaded_from(agent: Agent) -> LoadedFrom:
    """Return the origin of the agent; an empty one for an agent read from a record."""
    return agent._loaded_from if isinstance(agent, LoadedAgent) else LoadedFrom()


def origins_of(agent: Agent) -> dict[str, LoadedFrom]:
    """Return the origins of the agent, and of the Python agents that a run of it may hand over to,
    by their names.
    """
    origin = loaded_from(agent)
    return {
        agent.name: origin,
        **{PurePath(path).stem: each for path, each in origin.handoffs.items()},
    }


def types_by_path(agent: Agent, output_type: Any) -> dict[str, Any]:
    """Return the type of the agent's answers, and those of the Python agents that may take over its
    run, by path.
    """
    origin = loaded_from(agent)
    return {
        **{path: each.output_type for path, each in origin.handoffs.items()},
        origin.path: output_type,
    }


class RunAgent(LoadedAgent):
    """An agent in a run, or for one: with other agents, and with the functions that its tools
    offer.
    """

    _others: Mapping[str, Agent] = PrivateAttr(default_factory=dict)
    _sources: Mapping[str, Tool] = PrivateAttr(default_factory=dict)
    """Name → declared tool, for tools that their offered functions replace."""

    def source(self, tool: Tool) -> Tool:
        return self._sources.get(declared_name(tool), tool)


def with_others(agent: Agent, others: Mapping[str, Agent]) -> RunAgent:
    """Copy with the agents of other files that its run records, by path; later changes of the map
    apply to it.
    """
    copy = RunAgent.of(agent)
    copy._others = others
    return copy


def others_of(agent: Agent) -> Mapping[str, Agent]:
    """Return the agents of other files that the agent's run records, by path; {} outside of a
    run.
    """
    return agent._others if isinstance(agent, RunAgent) else {}


def document_of(node: Node) -> JsonObject:
    """All fields that have a value, under the names that files use."""
    return node.model_dump(mode="json", by_alias=True, exclude_none=True)


def _documents(agents: Mapping[str, Agent]) -> JsonObject:
    return {path: document_of(agent) for path, agent in agents.items()}


RecordedAgent = Annotated[Agent, PlainSerializer(document_of)]
"""An agent in the form for people in the Temporal UI: without absent fields."""
RecordedModel = Annotated[Model, PlainSerializer(document_of)]
"""A model in the same form."""
RecordedAgents = Annotated[dict[str, Agent], PlainSerializer(_documents)]
"""Agents in the same form, by path."""


PROVIDERS_GROUP = "perdure.providers"
"""An installed package adds a provider by an entry point of this group."""
BUILT_IN_PROVIDERS = ("anthropic", "azure", "foundry", "openai")


def split_model(name: str) -> tuple[str | None, str]:
    """Return the provider and the id in `PROVIDER/ID` or `PROVIDER:ID`.

    A name whose beginning is not a provider is an id, such as `meta-llama/Llama-3.3-70B` or
    `qwen3:8b`: its provider is None, as is that of a name without one. Never raises.
    """
    provider, id = (*re.split("[:/]", name, maxsplit=1), "")[:2]
    if provider == name or not (
        provider in BUILT_IN_PROVIDERS or entry_points(group=PROVIDERS_GROUP, name=provider)
    ):
        return None, name
    return provider, id
