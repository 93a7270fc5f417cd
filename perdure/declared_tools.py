"""Tools that an agent declares, kind by kind, with the properties and connections that they are made of (§2)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic.alias_generators import to_camel

from .messages import JsonObject, unless_empty
from .options import MAX_SECONDS, MIN_SECONDS

PropertyKind = Literal[
    "string", "integer", "float", "boolean", "array", "object", "union", "thread", "image", "file", "audio"
]
RICH_KINDS = frozenset({"thread", "image", "file", "audio"})


class Node(BaseModel):
    """A part of the file, with Python names here and camelCase names in files and JSON."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, validate_assignment=False, extra="allow")

    @classmethod
    def file_keys(cls) -> list[str]:
        """Return the names of the fields in files."""
        return [field.alias or name for name, field in cls.model_fields.items()]


class Property(Node):
    """An input, an output, or a tool parameter (§2.6)."""

    name: str = ""
    """What the template, the model or the function calls it."""
    kind: PropertyKind = "string"
    """The type of its value. `thread` is a list of messages; `image`, `file` and `audio` are media."""
    description: str | None = None
    """What the model is told of it."""
    required: bool = unless_empty(False)
    """Whether a value must be given; one with a `default` never has to be."""
    default: Any = None
    """The value where none is given."""
    example: Any = None
    """A value that shows what is meant; nothing reads it at run time."""
    enum_values: list[Any] | None = None
    """The only values that it may have."""
    nullable: bool = unless_empty(False)
    """Whether `null` is a value of it."""
    items: Property | None = None
    """Of an `array`: what each item is."""
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
    """How the far end knows who calls: by a key, by a connection registered under a name, or not at all."""
    authentication_mode: str | None = None
    """Of `oauth` for an MCP server: `system`, the default with a `clientSecret`, for tokens of the client's own, or
    `user` for those that a person has granted (`perdure connect`)."""
    usage_description: str | None = None
    """For whoever reads the file; nothing depends on it."""
    endpoint: str | None = None
    """The base URL. Without one, the provider's own."""
    api_version: str | None = None
    """Of a resource of Azure: the version of its API, such as `2024-10-21`."""
    api_key: str | None = Field(default=None, repr=False)
    """The key, as a reference: `${env:NAME}` or `${credential:ID}`. It is resolved on the worker."""
    name: str | None = None
    """Of a `reference`: the name under which a connection is registered."""
    target: str | None = None
    """Of a `reference`: what it leads to, for whoever reads the file."""
    connection_type: str | None = None
    """Of a `foundry` connection: its type there."""
    client_id: str | None = None
    """Of `oauth`: the client that asks for a token."""
    client_secret: str | None = Field(default=None, repr=False)
    """Of `oauth`: that client's secret, as a reference."""
    token_url: str | None = None
    """Of `oauth`: where a token is asked for."""
    issuer: str | None = None
    """Of `oauth` for an MCP server: the URL of the authorization server that the client belongs to."""
    scopes: list[str] | str | None = None
    """Of `oauth`: what the token is asked for."""


class Binding(Node):
    """Gives a tool parameter the value of an input of the run; the model does not see it (§2.8)."""

    input: str
    """The name of an input of the agent."""


MAX_CONTEXT = 100
"""Messages of the conversation that go along with a call."""


MAX_DECIDERS = 20
"""So many people may have to agree about one call."""


class ApprovalPolicy(Node):
    """Who may decide about a call. A gateway has to vouch for them, but where only `escalateAfter` is said."""

    by: list[Annotated[str, Field(min_length=1, max_length=200)]] | None = None
    """Roles: who has one of them may decide. Without it, everybody whom a gateway vouches for."""
    not_requester: bool = False
    """Whether those may not decide who have started the run, or have said something to it."""
    count: int = Field(default=1, ge=1, le=MAX_DECIDERS)
    """How many people must approve the same arguments. One who denies is enough for a denial."""
    escalate_after: float | None = Field(default=None, ge=MIN_SECONDS, le=MAX_SECONDS)
    """Seconds after which the role `to` may decide, too, and is asked to."""
    to: str | None = Field(default=None, min_length=1, max_length=200)
    """The role that is asked then."""

    @model_validator(mode="after")
    def _check_escalation(self) -> Self:
        if (self.escalate_after is None) != (self.to is None):
            raise ValueError("expected both `escalateAfter` and `to`, or neither")
        if self.by is not None and not self.by:
            raise ValueError("`by` names no role: expected one at least, or no `by`")
        return self

    @property
    def needs_vouch(self) -> bool:
        """Return whether only those may decide for whom a gateway vouches."""
        return bool(self.by) or self.not_requester or self.count > 1

    @property
    def as_json(self) -> JsonObject:
        """Return it as the agent's file has it."""
        written: JsonObject = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return written

    def with_stricter(self, other: ApprovalPolicy | None) -> ApprovalPolicy:
        """Return what both say together. Raises ValueError where no role is in both."""
        if other is None:
            return self
        by = self.by or other.by
        if self.by and other.by and not (by := [role for role in self.by if role in other.by]):
            raise ValueError(f"no role may decide by both: {', '.join(self.by)}; and {', '.join(other.by)}")
        sooner = min((each for each in (self, other) if each.escalate_after), key=_escalation, default=self)
        return ApprovalPolicy(
            by=by,
            not_requester=self.not_requester or other.not_requester,
            count=max(self.count, other.count),
            escalate_after=sooner.escalate_after,
            to=sooner.to,
        )

    def in_words(self) -> str:
        """Return it as people read it."""
        who = " or ".join(self.by) if self.by else "anybody whom a gateway vouches for" if self.needs_vouch else ""
        several = f"{self.count} people" if self.count > 1 else ""
        others = "who have not asked for it" if self.not_requester else ""
        later = f"also {self.to} after {self.escalate_after:g} s" if self.escalate_after else ""
        return ", ".join(part for part in (who, several, others, later) if part) or "anybody"


def needs_gateway(deciders: JsonObject | ApprovalPolicy | None) -> bool:
    """Return whether only a gateway passes on decisions about a call with these deciders; None is anybody."""
    return deciders is not None and ApprovalPolicy.model_validate(deciders).needs_vouch


def _escalation(policy: ApprovalPolicy) -> float:
    return policy.escalate_after or MAX_SECONDS


class ToolPolicy(Node):
    """How a tool is offered, and its calls executed: its key `perdure` in the file. What is absent is left to the
    tool's code."""

    timeout: float | None = Field(default=None, ge=MIN_SECONDS, le=MAX_SECONDS)
    """Seconds for one execution."""
    retries: int | None = Field(default=None, ge=0, le=100)
    """How often an execution that has failed is repeated."""
    idempotent: bool | None = None
    """False for a tool that must not be repeated when an execution was lost with its worker."""
    parallel_safe: bool | None = None
    """False for a tool beside which no other one may run."""
    approval: Literal["always", "never"] | ApprovalPolicy | None = None
    """Whether a person must approve each call; a map says that one must, and who may (`approval`, below)."""
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
    prefix: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-]{1,32}$")
    """The model calls the tool's functions by names that begin with it and `_`."""
    allowed_tools: list[str] | None = None
    """Those of the tool's functions that are offered, by their names without the prefix; without it, all."""
    denied_tools: list[str] | None = None
    """Those of them that are not offered."""


class _Tool(Node):
    name: str
    """The name that the model calls; where a server offers several functions, what they are declared under."""
    description: str | None = None
    """What the model is told of it."""
    bindings: dict[str, Binding] | None = None
    """Parameter → the input whose value it gets; the model does not see it."""
    perdure: ToolPolicy | None = None
    """How calls of it are executed."""
    locked: str | None = None
    """What the lock beside the agent's file pins of it (`perdure lock`), as JSON; no file has it."""

    def offered_name(self, name: str) -> str:
        """Return the name by which the model is offered one of the tool's functions."""
        prefix = self.perdure.prefix if self.perdure else None
        return f"{prefix}_{name}" if prefix else name

    @property
    def is_handoff(self) -> bool:
        """Whether the run goes on as another agent after a call of it."""
        return False


class FunctionTool(_Tool):
    """A function of the worker's process (§2.8)."""

    kind: Literal["function"] = "function"
    parameters: list[Property] | None = None
    """The arguments; without them, the function's signature says them."""
    strict: bool | None = None
    """Whether the provider holds the model's arguments to the schema."""
    of: str | None = unless_empty(None)
    """The name that the file declares, of a function that the model is offered by another one; no file has it."""


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
    mode: Literal["single", "agentic", "handoff"] = "single"
    """`single`: one model call. `agentic`: a run with its tools. `handoff`: this run goes on as that agent."""
    parameters: list[Property] | None = None
    """What the model gives it: its inputs, without them."""

    @property
    def is_handoff(self) -> bool:
        return self.mode == "handoff"


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
    recorded: str | None = None
    """What the code of that kind has found in files when the run was started; no file has it."""


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
