"""The typed form of a `.prompty` file, before anything is rendered (§2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field, PlainSerializer, PrivateAttr

from .asset_nodes import RICH_KINDS, Binding, Connection, Node, Property, PropertyKind
from .declared_tools import (
    CustomTool,
    FunctionTool,
    McpApprovalMode,
    McpTool,
    OfferedFunction,
    OpenApiTool,
    PromptyTool,
    Tool,
    ToolPolicy,
)
from .json_types import JsonObject

__all__ = [
    "RICH_KINDS",
    "Agent",
    "Binding",
    "Connection",
    "CustomTool",
    "EnvReference",
    "FormatConfig",
    "FunctionTool",
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
    "Template",
    "Tool",
    "ToolPolicy",
]

DEFAULT_PROVIDER = "openai"


class ModelOptions(Node):
    """Sampling options under Prompty's names (§2.5); each provider translates those that it has (§7)."""

    temperature: float | None = None
    max_output_tokens: int | None = None
    top_p: float | None = None
    top_k: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    stop_sequences: list[str] | None = None
    allow_multiple_tool_calls: bool | None = None
    additional_properties: dict[str, Any] | None = None


class Model(Node):
    """A model and its provider (§2.3)."""

    id: str = ""
    provider: str | None = None
    api_type: str = "chat"
    connection: Connection | None = None
    options: ModelOptions | None = None

    @property
    def provider_key(self) -> str:
        """The key of the provider, whether or not the file names one."""
        return self.provider or DEFAULT_PROVIDER


class FormatConfig(Node):
    """How the instructions are rendered (§2.7)."""

    kind: str = "jinja2"
    strict: bool = True
    """Whether role markers in the text of an input are refused (§6.3, ruling §18-5)."""
    options: dict[str, Any] | None = None


class ParserConfig(Node):
    """How the rendered text is parsed into messages (§2.7)."""

    kind: str = "prompty"
    options: dict[str, Any] | None = None


class Template(Node):
    """How the instructions become messages (§2.7)."""

    format: FormatConfig = Field(default_factory=FormatConfig)
    parser: ParserConfig = Field(default_factory=ParserConfig)


@dataclass(frozen=True)
class EnvReference:
    """A `${env:NAME}` of the file (§2.10), and its value when the file was loaded."""

    text: str
    value: str = field(repr=False)


class Agent(Node):
    """A loaded `.prompty` file. Immutable by convention: change a copy (`model_copy`)."""

    name: str = ""
    display_name: str | None = None
    description: str | None = None
    metadata: dict[str, Any] | None = None
    model: Model | None = None
    inputs: list[Property] | None = None
    outputs: list[Property] | None = None
    tools: list[Tool] | None = None
    template: Template | None = None
    instructions: str = ""

    _references: dict[str, EnvReference] = PrivateAttr(default_factory=dict)
    """JSON pointer → the reference at that place; its text is recorded instead of the value."""
    _base_dir: str | None = PrivateAttr(default=None)
    """The folder that relative paths start from; None for an agent that does not come from a file."""
    _file_roots: tuple[str, ...] = PrivateAttr(default=())
    """Further folders in which files may be read that the agent's own file names."""

    _others: Mapping[str, Agent] = PrivateAttr(default_factory=dict)
    """The agents of other files that its run has recorded, by path."""

    _sources: dict[str, Tool] = PrivateAttr(default_factory=dict)
    """Name → declared tool, for those whose offered functions stand in their place."""

    def tool(self, name: str) -> Tool | None:
        """The declared tool of that name, or None."""
        for tool in self.tools or ():
            if tool.name == name:
                return tool
        return None

    def source(self, tool: Tool) -> Tool:
        """The declared tool that offers this one: what the file has; for all but an `OfferedFunction`, itself."""
        return self._sources.get(tool.of, tool) if isinstance(tool, OfferedFunction) else tool

    def with_declarations(self, tools: Sequence[Tool]) -> Agent:
        """A copy in which these declarations replace those of the same names; itself without any.

        Offered functions stand in the place of the tool that offers them, which `source` still knows.
        """
        if not tools:
            return self
        replaced: dict[str, list[Tool]] = {}
        for tool in tools:
            replaced.setdefault(tool.of if isinstance(tool, OfferedFunction) else tool.name, []).append(tool)
        declared = [each for tool in self.tools or [] for each in replaced.get(tool.name, [tool])]
        copy = self.model_copy(update={"tools": declared})
        copy._sources = {**self._sources, **{tool.name: tool for tool in self.tools or [] if tool.name in replaced}}
        return copy


def _document(agent: Agent) -> JsonObject:
    return agent.model_dump(mode="json", by_alias=True, exclude_none=True)


def _documents(agents: Mapping[str, Agent]) -> JsonObject:
    return {path: _document(agent) for path, agent in agents.items()}


RecordedAgent = Annotated[Agent, PlainSerializer(_document)]
"""An agent as people read it in the Temporal UI: without absent fields."""
RecordedAgents = Annotated[dict[str, Agent], PlainSerializer(_documents)]
"""Such agents, by path."""
