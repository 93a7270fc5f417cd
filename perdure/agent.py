"""The typed form of a `.prompty` file, before anything is rendered (§2)."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, PrivateAttr, Tag
from pydantic.alias_generators import to_camel

PropertyKind = Literal[
    "string", "integer", "float", "boolean", "array", "object", "union", "thread", "image", "file", "audio"
]
DEFAULT_PROVIDER = "openai"
RICH_KINDS = frozenset({"thread", "image", "file", "audio"})


class Node(BaseModel):
    """A part of the file, with Python names here and camelCase names in files and JSON."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, validate_assignment=False, extra="allow")

    @classmethod
    def file_keys(cls) -> list[str]:
        """The names of the fields in files."""
        return [field.alias or name for name, field in cls.model_fields.items()]


class Property(Node):
    """An input, an output, or a tool parameter (§2.6)."""

    name: str = ""
    kind: PropertyKind = "string"
    description: str | None = None
    required: bool = Field(default=False, exclude_if=operator.not_)
    default: Any = None
    example: Any = None
    enum_values: list[Any] | None = None
    nullable: bool = Field(default=False, exclude_if=operator.not_)
    items: Property | None = None
    properties: list[Property] | None = None
    one_of: list[Property] | None = None
    any_of: list[Property] | None = None


class Connection(Node):
    """How to reach a model or a tool server (§2.4). Which fields apply depends on `kind`."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")

    kind: Literal["key", "reference", "remote", "anonymous", "foundry", "oauth"] = "key"
    authentication_mode: str | None = None
    usage_description: str | None = None
    endpoint: str | None = None
    api_key: str | None = Field(default=None, repr=False)
    name: str | None = None
    target: str | None = None
    connection_type: str | None = None
    client_id: str | None = None
    client_secret: str | None = Field(default=None, repr=False)
    token_url: str | None = None
    scopes: list[str] | str | None = None


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


class Binding(Node):
    """Gives a tool parameter the value of an input of the run; the model does not see it (§2.8)."""

    input: str


class _Tool(Node):
    name: str
    description: str | None = None
    bindings: dict[str, Binding] | None = None


class FunctionTool(_Tool):
    """A function of the worker's process (§2.8)."""

    kind: Literal["function"] = "function"
    parameters: list[Property] | None = None
    strict: bool | None = None


class McpApprovalMode(Node):
    """Which tools of an MCP server need an approval (§2.8)."""

    kind: Literal["always", "never", "specify"]
    always_require_approval_tools: list[str] | None = None
    never_require_approval_tools: list[str] | None = None


class McpTool(_Tool):
    """The tools of an MCP server (§2.8)."""

    kind: Literal["mcp"] = "mcp"
    connection: Connection | None = None
    server_name: str | None = None
    server_description: str | None = None
    approval_mode: McpApprovalMode | None = None
    allowed_tools: list[str] | None = None


class OpenApiTool(_Tool):
    """The operations of an HTTP API with an OpenAPI description (§2.8)."""

    kind: Literal["openapi"] = "openapi"
    connection: Connection | None = None
    specification: str | None = None


class PromptyTool(_Tool):
    """Another `.prompty` file, called as a tool (requirement §9.6)."""

    kind: Literal["prompty"] = "prompty"
    path: str
    mode: Literal["single", "agentic"] = "single"
    parameters: list[Property] | None = None


class CustomTool(_Tool):
    """Any other kind; `kind` is as written in the file, and selects the handler (§11)."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")

    kind: str
    connection: Connection | None = None
    options: dict[str, Any] | None = None
    parameters: list[Property] | None = None


def _tool_tag(value: Any) -> str:
    kind = value.get("kind", "function") if isinstance(value, dict) else getattr(value, "kind", "function")
    return kind if kind in ("function", "mcp", "openapi", "prompty") else "custom"


Tool = Annotated[
    Annotated[FunctionTool, Tag("function")]
    | Annotated[McpTool, Tag("mcp")]
    | Annotated[OpenApiTool, Tag("openapi")]
    | Annotated[PromptyTool, Tag("prompty")]
    | Annotated[CustomTool, Tag("custom")],
    Discriminator(_tool_tag),
]


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

    def tool(self, name: str) -> Tool | None:
        """The declared tool of that name, or None."""
        for tool in self.tools or ():
            if tool.name == name:
                return tool
        return None

    def with_declarations(self, tools: Sequence[Tool]) -> Agent:
        """A copy in which these declarations replace those of the same names; itself without any."""
        if not tools:
            return self
        replaced = {tool.name: tool for tool in tools}
        return self.model_copy(update={"tools": [replaced.get(tool.name, tool) for tool in self.tools or []]})
