"""What a provider does (§7, §8, §11), and the functions that an agent offers to a model, in no wire format."""

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
"""What a tool call or a content block counts for in `StreamAssembler.size`, besides its text: so much it takes."""
_VALUE_SIZE = 64
"""The same for a list or an object in it."""


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer, as it is streamed."""

    kind: Literal["text", "thinking"]
    text: str


class CallSeries(NamedTuple):
    """The calls that a model call belongs to: those of a run, or of a session."""

    key: str = ""
    """Identifies them for the provider, in at most 64 characters, and tells nobody else anything; "" for none."""
    goes_on: bool = False
    """Whether there may be another call, which begins with what this one sends."""


ALONE = CallSeries()


def ignore(delta: Delta) -> None:
    """For a stream that nobody watches."""


@dataclass(frozen=True)
class ModelCallOptions:
    """How one call is made."""

    timeout: float
    """Seconds, for the whole call."""
    stream: bool = False
    """Whether a stream is asked for, where the API has one."""
    on_delta: Callable[[Delta], None] = ignore
    """Sees each piece of a streamed answer; it does not raise."""
    max_bytes: int = DEFAULT_ANSWER_BYTES
    """An answer of more bytes, counted as it is unpacked, is given up."""
    series: CallSeries = ALONE
    """For the provider's prompt cache."""


class BackgroundRecord(ABC):
    """What is kept of a response that the provider makes in the background, so that another attempt goes on with it.

    Called from the event loop that the provider is called on.
    """

    @property
    @abstractmethod
    def response(self) -> str:
        """The provider's id of the response that an attempt before this one has begun; "" for none."""

    @property
    @abstractmethod
    def after(self) -> int | None:
        """The number of the last event of it that was read; None for none."""

    @abstractmethod
    async def record(self, response: str) -> None:
        """Keep the id; returns when another attempt would find it. Never raises."""

    @abstractmethod
    def advance(self, after: int) -> None:
        """Keep that this event was read, and that `on_delta` has seen what it says."""

    @abstractmethod
    async def forget(self) -> None:
        """Keep that the response is lost, because the provider does not know it: the model is asked anew."""

    @abstractmethod
    async def end(self) -> None:
        """Keep no response any more: it has failed, or was ended."""

    @abstractmethod
    async def is_handed_on(self) -> bool:
        """Return whether another attempt goes on with the response, now that this one is cancelled."""


class Provider(ABC):
    """One provider's API, chosen by `model.provider` and `model.apiType`.

    To add one, subclass it and register a callable `(key, api_type) -> Provider` under the provider's key in
    the entry-point group `perdure.providers`. One object serves every call, in any thread: it keeps no state of
    a call. All methods except `call` are pure.
    """

    title: ClassVar[str] = "this API"
    """The API's name for people."""
    media: ClassVar[AcceptedMediaTypes | None] = None
    """The images, recordings and files that the API takes, so that a run with others is not started; None: unknown."""

    def __init__(self, key: str) -> None:
        self.key = key
        """The key that the provider was found under: `openai` and `azure` share a class."""

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

        `extra_tools` holds `{name, description?, parameters?}` of tools that are not in the file itself,
        `parameters` being a JSON Schema. With `may_call_tools=False` the model has to answer without tools; they
        are declared all the same where the API refuses a conversation that mentions undeclared ones. Raises
        ValueError for what the API cannot express.
        """

    @abstractmethod
    def process(self, agent: Agent, response: JsonView) -> Any:
        """Return the answer in a raw response: a list of ToolCall, the structured value, or the text (§8).

        Raises ValueError (`Unexpected response format`) for anything that is not a response of this API.
        """

    @abstractmethod
    def reply(self, agent: Agent, response: JsonView) -> ModelReply:
        """Answer in a raw response as the message that continues the conversation, with usage and warnings.

        Raises ModelError of kind `invalid_response` for anything that is not a response of this API.
        """

    @abstractmethod
    async def call(self, agent: Agent, request: JsonView, options: ModelCallOptions) -> JsonObject:
        """Sends the request once, without retries, and gives the raw response, streamed or not, its text valid.

        References in the agent's connection are already resolved.
        Raises ModelError for every failure.
        Cancelling the coroutine ends the HTTP request at once.
        """

    async def call_in_background(
        self, agent: Agent, request: JsonView, options: ModelCallOptions, record: BackgroundRecord
    ) -> JsonObject | None:
        """As `call`, of a response that outlives its caller at the provider; `record` is what is kept of it.

        It goes on with a recorded one. Returns None where the API has no such thing, or this call is not worth it: then
        it has asked for nothing, and `call` is to be made. When the coroutine is cancelled, the response is ended,
        unless another attempt goes on with it.
        """
        return None

    async def end_response(self, agent: Agent, response: str) -> None:
        """End a response that is made in the background, so that it costs no more; one that has ended stays as it is.

        References in the agent's connection are already resolved. Never raises.
        """
        return None


class StreamAssembler(ABC):
    """Assembles the events of one stream into the response that a call without streaming gives."""

    refusal: str = ""
    """The words in which the model refuses; "" as long as it does not."""
    is_complete: bool = False
    """Whether the provider has reported the end of the answer."""
    has_all: bool = False
    """Whether the end of the answer has brought all of it, also what came in earlier events."""
    size: int = 0
    """About how many characters the response so far holds."""

    @abstractmethod
    def add(self, event: JsonView) -> list[Delta]:
        """Takes one event and gives what it adds to the answer.

        Raises ModelError for an event that reports a failure, and LookupError, TypeError or AttributeError for one
        that is not an event of this API.
        """

    @abstractmethod
    def response(self) -> JsonObject:
        """Return the response so far; raises like `add`."""


PROVIDER_KIND = "provider"


def weight(value: Any) -> int:
    """Return about how many characters take as much memory as the JSON value does."""
    if isinstance(value, str):
        return len(value)
    written = compact_json(value)
    return len(written) + _VALUE_SIZE * (written.count("{") + written.count("["))


class FunctionDefinition(NamedTuple):
    """One function as the model sees it."""

    name: str
    description: str | None
    parameters: JsonObject
    """A JSON Schema of `type: object`, without the parameters that take their value from an input (§9.6)."""
    strict: bool = False


def offered_functions(
    agent: Agent,
    extra_tools: Sequence[JsonView] = (),
    *,
    allow_strict: bool = True,
    along_with: Sequence[Message] = (),
) -> list[FunctionDefinition]:
    """Return the declared tools that have parameters, then the extra ones, each name once.

    `extra_tools` holds `{name, description?, parameters?}` of tools whose parameters only their server knows (MCP,
    OpenAPI, a sub-agent's inputs), `parameters` being a JSON Schema. With `allow_strict=False`, strict tools are
    offered as ordinary ones. `along_with` holds the messages that go to the model with the functions: when they
    are `Unchanging`, so is the agent. Raises ValueError for a union without alternatives.
    """
    declared = _DECLARED[allow_strict].of(agent, along_with=along_with)
    offered = {definition.name: definition for definition in declared}
    for projection in extra_tools:
        definition = _extra(agent, projection)
        offered.setdefault(definition.name, definition)
    return list(offered.values())


def declared_provider_tools(agent: Agent) -> list[CustomTool]:
    """Return the agent's tools that the provider executes itself."""
    return [tool for tool in agent.tools or () if isinstance(tool, CustomTool) and tool.kind == PROVIDER_KIND]


def _functions(allow_strict: bool, agent: Agent) -> list[FunctionDefinition]:
    definitions = []
    for tool in agent.tools or []:
        if isinstance(tool, OfferedFunction):
            definitions.append(FunctionDefinition(tool.name, tool.description, tool.schema_))
        elif isinstance(tool, FunctionTool) or (
            isinstance(tool, PromptyTool | CustomTool) and tool.parameters is not None
        ):
            strict = allow_strict and isinstance(tool, FunctionTool) and bool(tool.strict)
            visible = [prop for prop in tool.parameters or [] if prop.name not in _bound_names(tool)]
            schema = object_schema(visible, STRICT if strict else OFFERED)
            definitions.append(FunctionDefinition(tool.name, tool.description, schema, strict))
    return definitions


_DECLARED = {
    allow_strict: Memo[Agent, FunctionDefinition](partial(_functions, allow_strict)) for allow_strict in (True, False)
}


def _extra(agent: Agent, projection: JsonView) -> FunctionDefinition:
    name = projection["name"]
    tool = agent.tool(name)
    schema = dict(projection.get("parameters") or {"type": "object", "properties": {}})
    bound = _bound_names(tool) if tool else frozenset()
    return FunctionDefinition(name, projection.get("description"), without_properties(schema, bound))


def _bound_names(tool: Tool) -> frozenset[str]:
    return frozenset(tool.bindings or ())


MAX_CALLS = 50
MAX_VALUE_CHARS = 300
MAX_ENTRIES = 20
MAX_DEPTH = 6
_HIDDEN = ("encrypted", "result")
"""What only the provider can read, or is a whole picture, begins so."""


def provider_call(name: str, id: Any, status: Any, details: JsonView) -> ProviderCall:
    """Return what is recorded of one call; of `details`, as much as people read."""
    shortened = _shorten({key: value for key, value in details.items() if value not in (None, "", [], {})}, 0)
    status = status if isinstance(status, str) else "completed"
    return ProviderCall(name=name[:100], id=str(id or "")[:200], status=status[:100], details=shortened)


def _shorten(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        return "…"
    if isinstance(value, str):
        return excerpt(value, MAX_VALUE_CHARS)
    if isinstance(value, Mapping):
        shown = [(key, each) for key, each in value.items() if not (isinstance(key, str) and key.startswith(_HIDDEN))]
        return {str(key)[:100]: _shorten(each, depth + 1) for key, each in shown[:MAX_ENTRIES]}
    if isinstance(value, list):
        return [_shorten(each, depth + 1) for each in value[:MAX_ENTRIES]]
    return value


def rename_keys(request: JsonObject, names: Mapping[str, str]) -> JsonObject:
    """Return the request with other names of keys; "" leaves one out."""
    pairs = ((names.get(key, key), value) for key, value in request.items())
    return {key: value for key, value in pairs if key}
