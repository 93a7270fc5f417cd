"""The tools that an agent declares, kind by kind, and the functions that they offer to the model (§2.8)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag
from pydantic.alias_generators import to_camel

from .asset_nodes import Binding, Connection, Node, Property
from .json_types import JsonObject
from .options import MAX_SECONDS, MIN_SECONDS

MAX_CONTEXT = 100
"""Messages of the conversation that go along with a call."""


class ToolPolicy(Node):
    """How calls of a tool are executed: its key `perdure` in the file. What is absent is left to the tool's code."""

    timeout: float | None = Field(default=None, ge=MIN_SECONDS, le=MAX_SECONDS)
    """Seconds for one execution."""
    retries: int | None = Field(default=None, ge=0, le=100)
    """How often an execution that has failed is repeated."""
    idempotent: bool | None = None
    """False for a tool that must not be repeated when an execution was lost with its worker."""
    parallel_safe: bool | None = None
    """False for a tool beside which no other one may run."""
    approval: Literal["always", "never"] | None = None
    """Whether a person must approve each call."""
    approval_timeout: float | None = Field(default=None, ge=MIN_SECONDS, le=MAX_SECONDS)
    """Seconds until a call that nobody has decided about is denied."""
    local: bool | None = None
    """True for a fast, pure function, which is then executed as a local activity."""
    max_result: int | None = Field(default=None, gt=0)
    """Bytes of text that the model is shown of one result."""
    context: int | None = Field(default=None, ge=0, le=MAX_CONTEXT)
    """So many of the last messages of the conversation go along with a call, for functions and other agents."""
    message: str | None = None
    """For `kind: prompty`: the parameter that is said to the other agent, as the last message that it begins with."""


class _Tool(Node):
    name: str
    """The name that the model calls; where a server offers several functions, what they are declared under."""
    description: str | None = None
    """What the model is told of it."""
    bindings: dict[str, Binding] | None = None
    """Parameter → the input whose value it gets; the model does not see it."""
    perdure: ToolPolicy | None = None
    """How calls of it are executed."""


class FunctionTool(_Tool):
    """A function of the worker's process (§2.8)."""

    kind: Literal["function"] = "function"
    parameters: list[Property] | None = None
    """The arguments; without them, the function's signature says them."""
    strict: bool | None = None
    """Whether the provider holds the model's arguments to the schema."""


class McpApprovalMode(Node):
    """Which tools of an MCP server need an approval (§2.8)."""

    kind: Literal["always", "never", "specify"]
    """All of them, none, or those that the lists name."""
    always_require_approval_tools: list[str] | None = None
    """Tools whose calls a person must approve."""
    never_require_approval_tools: list[str] | None = None
    """Tools whose calls need nobody."""


class McpTool(_Tool):
    """The tools of an MCP server (§2.8)."""

    kind: Literal["mcp"] = "mcp"
    connection: Connection | None = None
    """The server, if it is reached over HTTP."""
    server_name: str | None = None
    """The server's name; without one, that of the tool."""
    server_description: str | None = None
    """What the model is told of the server."""
    approval_mode: McpApprovalMode | None = None
    """Which calls wait for a person."""
    allowed_tools: list[str] | None = None
    """Those of the server's tools that are offered; without it, all."""
    options: dict[str, Any] | None = None
    """How a server is started or reached, as far as `connection` does not say it."""


class OpenApiTool(_Tool):
    """The operations of an HTTP API with an OpenAPI description (§2.8)."""

    kind: Literal["openapi"] = "openapi"
    connection: Connection | None = None
    """How calls are authorised, and another base URL."""
    specification: str | None = None
    """The URL of an OpenAPI document, or a path that is relative to the agent's file."""
    options: dict[str, Any] | None = None
    """Which operations are offered: `operations`, `tags`, `exclude`; `variables` of the server."""
    recorded: str | None = None
    """What `start_run` has found in the file, as JSON; no file has it."""


class PromptyTool(_Tool):
    """Another `.prompty` file, called as a tool (requirement §9.6)."""

    kind: Literal["prompty"] = "prompty"
    path: str
    """The other agent's file, relative to this one."""
    mode: Literal["single", "agentic"] = "single"
    """`single`: one model call. `agentic`: a run with its tools."""
    parameters: list[Property] | None = None
    """What the model gives it: its inputs, without them."""


class CustomTool(_Tool):
    """Any other kind; `kind` is as written in the file, and selects the handler (§11)."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")

    kind: str
    """What executes it: `function`, `mcp`, `openapi`, `prompty`, `a2a`, `builtin`, … or a kind of your own."""
    connection: Connection | None = None
    """For the code of that kind."""
    options: dict[str, Any] | None = None
    """For the code of that kind."""
    parameters: list[Property] | None = None
    """What the model may say in a call."""


OFFERED: Literal["perdure.offered"] = "perdure.offered"


class OfferedFunction(_Tool):
    """A function that a declared tool offers to the model; no file has one. Its kind of tool has prepared it."""

    kind: Literal["perdure.offered"] = OFFERED
    of: str
    """The name of the tool that the file declares; a tool that offers one function alone may share its name."""
    schema_: JsonObject = Field(alias="schema")
    """The JSON Schema of the arguments, as the model is told."""
    details: JsonObject = {}
    """What the kind of tool wants to know when the function is called. It is recorded: no secrets."""


def _tool_tag(value: Any) -> str:
    kind = value.get("kind", "function") if isinstance(value, dict) else getattr(value, "kind", "function")
    return kind if kind in ("function", "mcp", "openapi", "prompty", OFFERED) else "custom"


Tool = Annotated[
    Annotated[FunctionTool, Tag("function")]
    | Annotated[McpTool, Tag("mcp")]
    | Annotated[OpenApiTool, Tag("openapi")]
    | Annotated[PromptyTool, Tag("prompty")]
    | Annotated[OfferedFunction, Tag(OFFERED)]
    | Annotated[CustomTool, Tag("custom")],
    Discriminator(_tool_tag),
]
