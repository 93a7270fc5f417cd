"""The interface of a provider (§7, §8, §11), and the functions that an agent offers to a model, in
no wire format.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

from ..agents import Agent
from ..declared_tools import CustomTool, FunctionTool, OfferedFunction, PromptyTool, Tool
from ..json_types import JsonObject, JsonView
from ..messages import Message, ModelReply, ProviderCall
from ..options import DEFAULT_ANSWER_BYTES
from ..schema import OFFERED, STRICT, object_schema, without_properties
from ..text import excerpt
from .memo import Memo
from .tool_call_text import AcceptedMediaTypes, compact_json

BLOCK_SIZE = 500
"""The size of a tool call or a content block in `StreamAssembler.size`, besides its text: about its
memory."""
_VALUE_SIZE = 64
"""The same for a list or an object in it."""


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a streamed answer."""

    kind: Literal["text", "thinking"]
    text: str


class CallSeries(NamedTuple):
    """The series of calls that a model call belongs to: those of a run, or of a session."""

    key: str = ""
    """Identifies the series for the provider, in at most 64 characters, without revealing anything;
    "" for none."""
    goes_on: bool = False
    """Whether another call may follow that begins with this one's messages."""


ALONE = CallSeries()


def ignore(delta: Delta) -> None:
    """Ignore a piece of a stream without watchers."""


@dataclass(frozen=True)
class ModelCallOptions:
    """The options of one call."""

    timeout: float
    """Seconds, for the whole call."""
    stream: bool = False
    """Whether to request a stream, if the API has one."""
    on_delta: Callable[[Delta], None] = ignore
    """Called with each piece of a streamed answer; it does not raise."""
    max_bytes: int = DEFAULT_ANSWER_BYTES
    """The limit of an answer, in unpacked bytes; a larger one is given up."""
    series: CallSeries = ALONE
    """For the provider's prompt cache."""


class Provider(ABC):
    """One provider's API, chosen by `model.provider` and `model.apiType`.

    To add one, subclass it and register a callable `(key, api_type) -> Provider` under the
    provider's key in the entry-point group `perdure.providers`. One object serves every call, in
    any thread: it keeps no state of a call. All methods except `call` are pure.
    """

    title: ClassVar[str] = "this API"
    """The API's name for people."""
    media: ClassVar[AcceptedMediaTypes | None] = None
    """The images, recordings and files that the API accepts, so that a run with others does not
    start; None: unknown."""

    def __init__(self, key: str) -> None:
        self.key = key
        """The provider's key: `openai` and `azure` share a class."""

    @abstractmethod
    def to_request(
        self,
        agent: Agent,
        messages: Sequence[Message],
        *,
        extra_tools: Sequence[JsonView] = (),
        may_call_tools: bool = True,
    ) -> JsonObject:
        """Return the body of the request, model included (§7).

        `extra_tools` holds `{name, description?, parameters?}` of tools that are not in the file
        itself, `parameters` being a JSON Schema. With `may_call_tools=False` the model must answer
        without tools; they are still declared if the API refuses a conversation that mentions
        undeclared ones. Raises ValueError for anything that the API cannot express.
        """

    @abstractmethod
    def process(self, agent: Agent, response: JsonView) -> Any:
        """Return the answer in a raw response: a list of ToolCall, the structured value, or the
        text (§8).

        Raises ValueError (`Unexpected response format`) for anything that is not a response of this
        API.
        """

    @abstractmethod
    def reply(self, agent: Agent, response: JsonView) -> ModelReply:
        """Answer in a raw response as the message that continues the conversation, with usage and
        warnings.

        Raises ModelError of kind `invalid_response` for anything that is not a response of this
        API.
        """

    @abstractmethod
    async def call(self, agent: Agent, request: JsonView, options: ModelCallOptions) -> JsonObject:
        """Send the request once, without retries, and return the raw response, streamed or not, its
        text valid.

        References in the agent's connection are already resolved. Raises ModelError for every
        failure. Cancelling the coroutine ends the HTTP request at once.
        """


class StreamAssembler(ABC):
    """Assembles the events of one stream into the response that a call without streaming
    returns.
    """

    refusal: str = ""
    """The model's words of refusal; "" without a refusal."""
    is_complete: bool = False
    """Whether the provider has reported the end of the answer."""
    size: int = 0
    """The approximate number of characters in the response up to now."""

    @abstractmethod
    def add(self, event: JsonView) -> list[Delta]:
        """Take one event and return its additions to the answer.

        Raises ModelError for an event that reports a failure, and LookupError, TypeError or
        AttributeError for one that is not an event of this API.
        """

    @abstractmethod
    def response(self) -> JsonObject:
        """Return the response up to now; raises like `add`."""


PROVIDER_KIND = "provider"


def weight(value: Any) -> int:
    """Return the approximate number of characters that need as much memory as the JSON value."""
    if isinstance(value, str):
        return len(value)
    written = compact_json(value)
    return len(written) + _VALUE_SIZE * (written.count("{") + written.count("["))


class FunctionDefinition(NamedTuple):
    """One function as the model sees it."""

    name: str
    description: str | None
    parameters: JsonObject
    """A JSON Schema of `type: object`, without the parameters that take their value from an input
    (§9.6)."""
    strict: bool = False


def offered_functions(
    agent: Agent,
    extra_tools: Sequence[JsonView] = (),
    *,
    allow_strict: bool = True,
    along_with: Sequence[Message] = (),
) -> list[FunctionDefinition]:
    """Return the declared tools that have parameters, then the extra ones, each name once.

    `extra_tools` holds `{name, description?, parameters?}` of tools whose parameters only their
    server knows (MCP, OpenAPI, a sub-agent's inputs), `parameters` being a JSON Schema. With
    `allow_strict=False`, strict tools are offered as ordinary ones. `along_with` holds the messages
    that go to the model with the functions: if they are `Unchanging`, so is the agent. Raises
    ValueError for a union without alternatives.
    """
    declared = _DECLARED[allow_strict].of(agent, along_with=along_with)
    offered = {definition.name: definition for definition in declared}
    for projection in extra_tools:
        definition = _extra(agent, projection)
        offered.setdefault(definition.name, definition)
    return list(offered.values())


def declared_provider_tools(agent: Agent) -> list[CustomTool]:
    """Return the agent's tools that the provider executes itself."""
    return [
        tool
        for tool in agent.tools or ()
        if isinstance(tool, CustomTool) and tool.kind == PROVIDER_KIND
    ]


def _functions(allow_strict: bool, agent: Agent) -> list[FunctionDefinition]:
    definitions = []
    for tool in agent.tools or []:
        if isinstance(tool, OfferedFunction):
            definitions.append(FunctionDefinition(tool.name, tool.description, tool.schema_))
        elif isinstance(tool, FunctionTool) or (
            isinstance(tool, PromptyTool | CustomTool) and tool.parameters is not None
        ):
            strict = allow_strict and isinstance(tool, FunctionTool) and bool(tool.strict)
            visible = [
                prop for prop in tool.parameters or [] if prop.name not in _bound_names(tool)
            ]
            schema = object_schema(visible, STRICT if strict else OFFERED)
            definitions.append(FunctionDefinition(tool.name, tool.description, schema, strict))
    return definitions


_DECLARED = {
    allow_strict: Memo[Agent, FunctionDefinition](partial(_functions, allow_strict))
    for allow_strict in (True, False)
}


def _extra(agent: Agent, projection: JsonView) -> FunctionDefinition:
    name = projection["name"]
    tool = agent.tool(name)
    schema = dict(projection.get("parameters") or {"type": "object", "properties": {}})
    bound = _bound_names(tool) if tool else frozenset()
    return FunctionDefinition(
        name, projection.get("description"), without_properties(schema, bound)
    )


def _bound_names(tool: Tool) -> frozenset[str]:
    return frozenset(tool.bindings or ())


MAX_CALLS = 50
MAX_VALUE_CHARS = 300
MAX_ENTRIES = 20
MAX_DEPTH = 6
_HIDDEN = ("encrypted", "result")
"""Prefixes of keys whose values only the provider can read, or that hold a whole picture."""


def provider_call(name: str, id: Any, status: Any, details: JsonView) -> ProviderCall:
    """Return the record of one call, with the readable part of `details`."""
    shortened = _shorten(
        {key: value for key, value in details.items() if value not in (None, "", [], {})}, 0
    )
    status = status if isinstance(status, str) else "completed"
    return ProviderCall(
        name=name[:100], id=str(id or "")[:200], status=status[:100], details=shortened
    )


def _shorten(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        return "…"
    if isinstance(value, str):
        return excerpt(value, MAX_VALUE_CHARS)
    if isinstance(value, Mapping):
        shown = [
            (key, each)
            for key, each in value.items()
            if not (isinstance(key, str) and key.startswith(_HIDDEN))
        ]
        return {str(key)[:100]: _shorten(each, depth + 1) for key, each in shown[:MAX_ENTRIES]}
    if isinstance(value, list):
        return [_shorten(each, depth + 1) for each in value[:MAX_ENTRIES]]
    return value


def rename_keys(request: JsonObject, names: Mapping[str, str]) -> JsonObject:
    """Return the request with its keys renamed; a key renamed to "" is left out."""
    pairs = ((names.get(key, key), value) for key, value in request.items())
    return {key: value for key, value in pairs if key}
