"""The tools that an agent declares, by kind, with their properties and connections (§2)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic.alias_generators import to_camel

from .messages import JsonObject, unless_empty
from .options import MAX_SECONDS, MIN_SECONDS

PropertyKind = Literal[
    "string",
    "integer",
    "float",
    "boolean",
    "array",
    "object",
    "union",
    "thread",
    "image",
    "file",
    "audio",
]
RICH_KINDS = frozenset({"thread", "image", "file", "audio"})


class Node(BaseModel):
    """A part of the file, with Python names here and camelCase names in files and JSON."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, validate_assignment=False, extra="allow"
    )

    @classmethod
    def file_keys(cls) -> list[str]:
        """Return the names of the fields in files."""
        return [field.alias or name for name, field in cls.model_fields.items()]


class Property(Node):
    """An input, an output, or a tool parameter (§2.6)."""

    name: str = ""
    """The name that the template, the model or the function uses."""
    kind: PropertyKind = "string"
    """The type of its value. `thread` is a list of messages; `image`, `file` and `audio` are
    media."""
    description: str | None = None
    """Its description for the model."""
    required: bool = unless_empty(False)
    """Whether a value must be given; one with a `default` is never required."""
    default: Any = None
    """The value if none is given."""
    example: Any = None
    """An example of a value; it has no effect at run time."""
    enum_values: list[Any] | None = None
    """The only allowed values."""
    nullable: bool = unless_empty(False)
    """Whether `null` is an allowed value."""
    items: Property | None = None
    """Of an `array`: the type of its items."""
    properties: list[Property] | None = None
    """Of an `object`: its properties."""
    values: Property | None = None
    """For an `object` with any keys, in an answer: the type of its values."""
    one_of: list[Property] | None = None
    """Of a `union`: the value fits exactly one of these."""
    any_of: list[Property] | None = None
    """Of a `union`: the value fits at least one of these."""


class Connection(Node):
    """How to reach a model or a tool server (§2.4). Which fields apply depends on `kind`."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")

    kind: Literal["key", "reference", "remote", "anonymous", "foundry", "oauth"] = "key"
    """The authentication: by a key, by a connection registered under a name, or none."""
    authentication_mode: str | None = None
    """Of `oauth` for an MCP server: `system`, the default with a `clientSecret`, for tokens of the
    client's own, or `user` for tokens that a person has granted (`perdure connect`)."""
    usage_description: str | None = None
    """For the file's readers; it has no effect."""
    endpoint: str | None = None
    """The base URL. Without one, the provider's own."""
    api_version: str | None = None
    """Of a resource of Azure: the version of its API, such as `2024-10-21`."""
    api_key: str | None = Field(default=None, repr=False)
    """The key, as a reference: `${env:NAME}` or `${credential:ID}`. The worker resolves it."""
    name: str | None = None
    """Of a `reference`: the name under which a connection is registered."""
    target: str | None = None
    """Of a `reference`: its target, for the file's readers."""
    connection_type: str | None = None
    """Of a `foundry` connection: its type there."""
    client_id: str | None = None
    """Of `oauth`: the client that asks for a token."""
    client_secret: str | None = Field(default=None, repr=False)
    """Of `oauth`: that client's secret, as a reference."""
    token_url: str | None = None
    """Of `oauth`: the URL that issues tokens."""
    issuer: str | None = None
    """Of `oauth` for an MCP server: the URL of the authorization server that the client belongs
    to."""
    scopes: list[str] | str | None = None
    """Of `oauth`: the scopes of the token."""


class Binding(Node):
    """Binds a tool parameter to an input of the run; the model does not see the parameter
    (§2.8).
    """

    input: str
    """The name of an input of the agent."""


MAX_CONTEXT = 100
"""The most messages of the conversation that go along with a call."""


MAX_APPROVERS = 20
"""The most people whose agreement one call may need."""


class ApprovalPolicy(Node):
    """The people who may decide a call. A gateway must identify them."""

    by: list[Annotated[str, Field(min_length=1, max_length=200)]] | None = None
    """Roles: a person with any of them may decide. Without it, every person whom a gateway
    identifies."""
    not_requester: bool = False
    """Whether the people who started the run, or sent it messages, may not decide."""
    count: int = Field(default=1, ge=1, le=MAX_APPROVERS)
    """The number of people who must approve the same arguments. A single denial denies the call."""

    @model_validator(mode="after")
    def _check_roles(self) -> Self:
        if self.by is not None and not self.by:
            raise ValueError("`by` is empty: expected at least one role, or no `by`")
        return self

    @property
    def needs_vouch(self) -> bool:
        """Whether a gateway must identify the approvers."""
        return bool(self.by) or self.not_requester or self.count > 1

    @property
    def as_json(self) -> JsonObject:
        """The policy in the agent file's form."""
        written: JsonObject = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return written

    def with_stricter(self, other: ApprovalPolicy | None) -> ApprovalPolicy:
        """Return the combination of both policies. Raises ValueError if they have no role in
        common.
        """
        if other is None:
            return self
        by = self.by or other.by
        if self.by and other.by and not (by := [role for role in self.by if role in other.by]):
            raise ValueError(
                f"the policies share no role: {', '.join(self.by)}; and {', '.join(other.by)}"
            )
        return ApprovalPolicy(
            by=by,
            not_requester=self.not_requester or other.not_requester,
            count=max(self.count, other.count),
        )

    def in_words(self) -> str:
        """Return the policy in words, such as "admin or owner, 2 people, not the requester"."""
        who = (
            " or ".join(self.by)
            if self.by
            else "anybody identified by a gateway"
            if self.needs_vouch
            else ""
        )
        several = f"{self.count} people" if self.count > 1 else ""
        others = "not the requester" if self.not_requester else ""
        return ", ".join(part for part in (who, several, others) if part) or "anybody"


def needs_gateway(approvers: JsonObject | ApprovalPolicy | None) -> bool:
    """Return whether decisions about a call with these approvers must come through a gateway; None
    means anybody.
    """
    return approvers is not None and ApprovalPolicy.model_validate(approvers).needs_vouch


class ToolPolicy(Node):
    """The offer of a tool, and the execution of its calls: its key `perdure` in the file. The
    tool's code decides any absent field.
    """

    timeout: float | None = Field(default=None, ge=MIN_SECONDS, le=MAX_SECONDS)
    """Seconds for one execution."""
    retries: int | None = Field(default=None, ge=0, le=100)
    """How often a failed execution is repeated."""
    idempotent: bool | None = None
    """False for a tool that must not be repeated after an execution was lost with its worker."""
    parallel_safe: bool | None = None
    """False for a tool that must not run at the same time as another one."""
    approval: Literal["always", "never"] | ApprovalPolicy | None = None
    """Whether a person must approve each call; a map implies that, and names the approvers
    (`approval`, below)."""
    approval_timeout: float | None = Field(default=None, ge=MIN_SECONDS, le=MAX_SECONDS)
    """Seconds until an undecided call is denied."""
    local: bool | None = None
    """True for a fast, pure function, which then runs as a local activity."""
    max_result: int | None = Field(default=None, gt=0)
    """The bytes of text of one result that the model reads."""
    context: int | None = Field(default=None, ge=0, le=MAX_CONTEXT)
    """The number of last messages of the conversation that go along with a call, for functions and
    other agents."""
    message: str | None = None
    """For `kind: prompty`: the parameter whose value is the last message of the other agent's first
    conversation."""
    prefix: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-]{1,32}$")
    """A prefix for the names of the tool's functions; `_` follows it."""
    allowed_tools: list[str] | None = None
    """The functions of the tool that are offered, by their names without the prefix; without it,
    all."""
    denied_tools: list[str] | None = None
    """The functions of the tool that are not offered."""


class _Tool(Node):
    name: str
    """The name that the model calls; for a server with several functions, the name of their
    declaration."""
    description: str | None = None
    """Its description for the model."""
    bindings: dict[str, Binding] | None = None
    """Parameter → the input that it is bound to; the model does not see it."""
    perdure: ToolPolicy | None = None
    """The execution of its calls."""

    def offered_name(self, name: str) -> str:
        """Return the name of one of the tool's functions for the model."""
        prefix = self.perdure.prefix if self.perdure else None
        return f"{prefix}_{name}" if prefix else name

    @property
    def is_handoff(self) -> bool:
        """Whether the run continues as another agent after a call of it."""
        return False


class FunctionTool(_Tool):
    """A function of the worker's process (§2.8)."""

    kind: Literal["function"] = "function"
    parameters: list[Property] | None = None
    """The arguments; without them, those of the function's signature."""
    strict: bool | None = None
    """Whether the provider enforces the schema on the model's arguments."""
    of: str | None = unless_empty(None)
    """The name in the file, for a function that the model is offered under another one; not part of
    any file."""


class McpApprovalMode(Node):
    """The tools of an MCP server that need an approval (§2.8)."""

    kind: Literal["always", "never", "specify"]
    """All of them, none, or those in the lists."""
    always_require_approval_tools: list[str] | None = None
    """Tools whose calls a person must approve."""
    never_require_approval_tools: list[str] | None = None
    """Tools whose calls need no approval."""


class McpTool(_Tool):
    """The tools of an MCP server (§2.8)."""

    kind: Literal["mcp"] = "mcp"
    connection: Connection | None = None
    """The server, if it is reached over HTTP."""
    server_name: str | None = None
    """The server's name; the tool's name by default."""
    server_description: str | None = None
    """The server's description for the model."""
    approval_mode: McpApprovalMode | None = None
    """The calls that wait for a person."""
    allowed_tools: list[str] | None = None
    """The server's tools that are offered; without it, all."""
    options: dict[str, Any] | None = None
    """The start or the address of the server, in addition to `connection`."""


class OpenApiTool(_Tool):
    """The operations of an HTTP API with an OpenAPI description (§2.8)."""

    kind: Literal["openapi"] = "openapi"
    connection: Connection | None = None
    """The authorisation of calls, and another base URL."""
    specification: str | None = None
    """The URL of an OpenAPI document, or a path relative to the agent's file."""
    options: dict[str, Any] | None = None
    """The operations that are offered: `operations`, `tags`, `exclude`."""
    recorded: str | None = None
    """The content of the file at `start_run`, as JSON; not part of any file."""


class PromptyTool(_Tool):
    """Another `.prompty` file, called as a tool (requirement §9.6)."""

    kind: Literal["prompty"] = "prompty"
    path: str
    """The other agent's file, relative to this one."""
    mode: Literal["single", "agentic", "handoff"] = "single"
    """`single`: one model call. `agentic`: a run with its tools. `handoff`: this run continues as
    that agent."""
    parameters: list[Property] | None = None
    """The arguments of a call; by default, the other agent's inputs."""

    @property
    def is_handoff(self) -> bool:
        return self.mode == "handoff"


class CustomTool(_Tool):
    """Any other kind; `kind` is as written in the file, and selects the handler (§11)."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")

    kind: str
    """The kind of executor: `function`, `mcp`, `openapi`, `prompty`, `a2a`, `builtin`, … or a
    custom kind."""
    connection: Connection | None = None
    """For the code of that kind."""
    options: dict[str, Any] | None = None
    """For the code of that kind."""
    parameters: list[Property] | None = None
    """The arguments of a call."""
    recorded: str | None = None
    """The content that the code of that kind read from files at the start of the run; not part of
    any file."""


OFFERED: Literal["perdure.offered"] = "perdure.offered"


class OfferedFunction(_Tool):
    """A function that a declared tool offers to the model; not part of any file. Its kind of tool
    prepares it.
    """

    kind: Literal["perdure.offered"] = OFFERED
    of: str
    """The tool's name in the file; a tool that offers only one function may share its name."""
    schema_: JsonObject = Field(alias="schema")
    """The JSON Schema of the arguments, as the model sees it."""
    details: JsonObject = {}
    """Data of the kind of tool for the function's calls. It is recorded: no secrets."""


def _tool_tag(value: Any) -> str:
    kind = (
        value.get("kind", "function")
        if isinstance(value, dict)
        else getattr(value, "kind", "function")
    )
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
