"""The common part of the wire formats: the steps to a request, the call through an SDK, the steps
to a reply (§7, §8).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from pydantic import ValidationError

from ..agents import Agent, ModelOptions, PromptCache
from ..declared_tools import CustomTool, Property
from ..errors import ModelError
from ..json_types import JsonObject, JsonView
from ..messages import MAX_TOKENS, Message, ModelReply, ToolCall, Usage
from ..text import bounded_text
from .base import (
    MAX_CALLS,
    CallSeries,
    FunctionDefinition,
    ModelCallOptions,
    Provider,
    StreamAssembler,
    declared_provider_tools,
    offered_functions,
    rename_keys,
)
from .clients import client_for, is_without_key, key_source, load_sdk
from .dialects import Recipient, server_of
from .ends import Answer, made_calls, require_reply
from .errors import MAX_NAME_CHARS, UnexpectedFormatError, error_from_http, json_excerpt, short_word
from .outgoing import as_offered, for_server, kept_content, own_names, with_unique_ids
from .refusals import MARKS, refused_part, without
from .sdk_call import SdkCall
from .sdks import sdk_for
from .structured import answer_value, read_answer

Send = Callable[[JsonView], Awaitable[JsonObject]]
INSTRUCTION_ROLES = frozenset({"system", "developer"})
_STREAMING_ONLY = ("stream", "stream_options")
_NO_KEY_SENT = (
    "no key was sent to {}: write `apiKey: ${{env:NAME}}` in the agent's connection; a key of the "
    "worker's environment "
    "is only sent to its provider, and to the server in OPENAI_BASE_URL, AZURE_OPENAI_ENDPOINT or "
    "ANTHROPIC_BASE_URL"
)
MAX_REFUSED = 20
LEFT_OUT = "Left out: "
"""The beginning of a warning about the parts of a request that a server refuses."""


class WireFormat(Provider):
    """A Provider whose subclasses supply only the parts of requests and responses that differ
    between APIs.

    The call goes through the provider's SDK, or through the SDK of an API that the server imitates.
    """

    api: ClassVar[str]
    """Marks the original content that this API accepts back (`provider_content.api`)."""
    imitated: ClassVar[str]
    """The provider whose SDK makes the calls, including those to other servers with the same
    format."""
    expected = "a response of this API"
    """The form of a response, in words for an error."""
    path: ClassVar[str]
    """The path of the endpoint, below the base URL of the SDK's client."""
    defaults: ClassVar[JsonView] = {}
    """Keys of every request; options override them."""
    options: ClassVar[Mapping[str, str]]
    """The sampling options of the API (§2.5): perdure's name → its name. Others are dropped."""
    merged: ClassVar[frozenset[str]] = frozenset()
    """Keys whose objects `additionalProperties` may add to (an effort level beside an output
    format)."""
    needs_message = False
    """Whether the API requires a message besides the instructions."""
    has_strict_tools = True
    """Whether a tool can be strict; otherwise strict tools are offered as ordinary ones."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.sdk = sdk_for(key, self.imitated)
        self._refused: dict[tuple[str, str], tuple[str, ...]] = {}
        """The name and model of a server → the parts of requests that it has refused."""

    def to_request(
        self,
        agent: Agent,
        messages: Sequence[Message],
        *,
        extra_tools: Sequence[JsonView] = (),
        may_call_tools: bool = True,
    ) -> JsonObject:
        request = {"model": agent.model.id if agent.model else "", **self.defaults}
        sent = for_server(messages, self.api, self.server(agent), needs_message=self.needs_message)
        request |= self.conversation(sent)
        request |= _sampling_options(agent, self.options)

        offered = offered_functions(
            agent, extra_tools, allow_strict=self.has_strict_tools, along_with=messages
        )
        functions = list(map(as_offered, offered))
        additional = dict(_additional_properties(agent))
        listed = additional.pop("tools") if isinstance(additional.get("tools"), list) else []
        provider_tools = [*map(self.provider_tool, declared_provider_tools(agent)), *listed]
        if functions or provider_tools:
            request |= self.tools(functions, may_call_tools=may_call_tools)
        if provider_tools and (may_call_tools or "tools" in request):
            request["tools"] = [*request.get("tools", []), *provider_tools]

        if agent.outputs:
            request |= self.output_format(agent.outputs)
        for key, value in additional.items():  # The request's own keys win (§2.5).
            if key in self.merged and key in request and isinstance(value, Mapping):
                request[key] = {**value, **request[key]}
            else:
                request.setdefault(key, value)
        return self._in_dialect(request, agent)

    def _in_dialect(self, request: JsonObject, agent: Agent) -> JsonObject:
        """Return the request with the keys that the agent's server accepts, under its names."""
        dialect = self.server(agent).dialect
        names = {**dialect.renames, **dict.fromkeys(dialect.refuses, "")}
        return rename_keys(request, names) if names.keys() & request.keys() else request

    def server(self, agent: Agent) -> Recipient:
        """Return the server of the agent's requests. Raises ValueError for an unknown dialect."""
        return server_of(agent, self.sdk, self.key)

    @abstractmethod
    def conversation(self, messages: Sequence[Message]) -> JsonObject:
        """Return the keys that carry the messages, system messages included."""

    def tools(self, functions: Sequence[FunctionDefinition], *, may_call_tools: bool) -> JsonObject:
        """Return the keys that offer the functions; none if the model may not call any."""
        return {"tools": [self.tool(function) for function in functions]} if may_call_tools else {}

    @abstractmethod
    def tool(self, definition: FunctionDefinition) -> JsonObject:
        """Return the declaration of one function."""

    def provider_tool(self, tool: CustomTool) -> JsonObject:
        """Return the declaration of a tool that the provider executes itself: its `options`,
        unchanged.
        """
        return {"type": tool.name, **(tool.options or {})}

    @abstractmethod
    def output_format(self, outputs: Sequence[Property]) -> JsonObject:
        """Keys that ask for an answer with these properties. Raises ValueError for a union without
        alternatives.
        """

    @abstractmethod
    def read(self, response: JsonView) -> Answer:
        """Return the answer in a response.

        Raises LookupError, TypeError, AttributeError or ValueError for anything that is not a
        response of this API.
        """

    @abstractmethod
    def assembler(self) -> StreamAssembler:
        """Return a new assembler, for one stream."""

    def to_stream_body(self, request: JsonView) -> JsonObject:
        """Return the body that asks for the same answer as a stream."""
        return {**request, "stream": True}

    def process(self, agent: Agent, response: JsonView) -> Any:
        answer = self._answer(response)
        if answer.tool_calls:
            return own_names(answer.tool_calls, agent)
        return answer_value(answer.text, agent.outputs) if agent.outputs else answer.text

    def reply(self, agent: Agent, response: JsonView) -> ModelReply:
        try:
            answer = self._answer(response)
            ended = require_reply(answer, self.key)
            calls = made_calls(answer, ended)
            message = self._message(answer, calls, agent)
        except ValueError as error:
            text = str(error)
            if isinstance(error, ValidationError | UnexpectedFormatError):
                # pydantic's words about a message name our fields, not the provider's.
                text = UnexpectedFormatError(json_excerpt(response)).account(self.expected)
            raise ModelError(
                bounded_text(text), kind="invalid_response", provider=self.key
            ) from error
        is_structured = agent.outputs and not calls
        output, faults = (
            read_answer(answer.text, agent.outputs or []) if is_structured else (None, [])
        )
        return ModelReply(
            message=message,
            usage=answer.usage,
            finish_reason=_word(answer.finish_reason),
            ended=ended,
            model=_word(response.get("model")),
            response_id=_word(response.get("id")),
            output=output,
            faults=faults,
            provider_calls=list(answer.provider_calls[:MAX_CALLS]),
            warnings=self._left_out(agent),
        )

    async def call(self, agent: Agent, request: JsonView, options: ModelCallOptions) -> JsonObject:
        async with self.sdk_call(agent, request, options) as call:

            async def send(body: JsonView) -> JsonObject:
                return await call.answer(
                    body, self.assembler(), options.on_delta, streams=options.stream
                )

            whole = {key: value for key, value in request.items() if key not in _STREAMING_ONLY}
            body = (
                self._in_dialect(self.to_stream_body(request), agent) if options.stream else whole
            )
            return await self.send_cached(send, agent, body, options.series, call.client)

    @asynccontextmanager
    async def sdk_call(
        self, agent: Agent, request: JsonView, options: ModelCallOptions
    ) -> AsyncIterator[SdkCall]:
        """Yield a call to the agent's connection, whose errors name its address and model."""
        await load_sdk(self.sdk)
        client = client_for(
            self.sdk, agent.model.connection if agent.model else None, provider=self.key
        )
        check = self._require_answer
        call = SdkCall(
            self.sdk,
            client,
            self.path,
            options.timeout,
            self.key,
            self.expected,
            check,
            options.max_bytes,
        )
        try:
            yield call
        except ModelError as error:
            error.address, error.model = call.address, short_word(request.get("model"))
            if error.kind == "authentication":
                why = (
                    _NO_KEY_SENT.format(call.address)
                    if is_without_key(client)
                    else f"the key is that of {key_source(self.sdk, agent)}"
                )
                error.message = f"{error.message} ({why})"
            raise

    async def send_cached(
        self, send: Send, agent: Agent, request: JsonObject, series: CallSeries, client: Any
    ) -> JsonObject:
        """Send the request with its prompt cache marks, and again without any part that the server
        refuses, which is remembered.

        Raises ModelError.
        """
        chosen = options.prompt_cache if (options := _options(agent)) else None
        is_own = self.sdk.is_providers(str(client.base_url))
        whole, place = self.for_call(agent, request), self._place(agent)
        refused = self._refused.get(place, ())
        while True:
            plain = sent = without(whole, refused) if refused else whole
            if MARKS not in refused and (chosen or series.goes_on):
                sent = self.for_cache(plain, chosen, series, is_own=is_own)
            try:
                response = await send(sent)
            except ModelError as error:
                part = refused_part(error, sent, is_marked=sent is not plain)
                if part is None or part in refused or len(refused) >= MAX_REFUSED:
                    raise
                refused = (*refused, part)
            else:
                if refused:
                    self._refused[place] = refused
                return response

    def for_call(self, agent: Agent, request: JsonObject) -> JsonObject:
        """Return the request with the additions that every call needs and `to_request` omits."""
        return request

    def _asked(self, agent: Agent) -> set[str]:
        """Return the request keys that the agent's file sets."""
        return {*_sampling_options(agent, self.options), *_additional_properties(agent)}

    def _place(self, agent: Agent) -> tuple[str, str]:
        return self.server(agent).name, agent.model.id if agent.model else ""

    def _left_out(self, agent: Agent) -> list[str]:
        """Return warnings about the file's settings that this server refuses."""
        refused = (*self.server(agent).dialect.refuses, *self._refused.get(self._place(agent), ()))
        asked = self._asked(agent)
        tools = [part.removeprefix("tool:") for part in refused if part.startswith("tool:")]
        remarks = [
            f"{LEFT_OUT}the option {name}, which the model refuses"
            for name in refused
            if name in asked
        ]
        return remarks + [
            f"{LEFT_OUT}the tool {name}, whose schema the model server refuses" for name in tools
        ]

    def for_cache(
        self, request: JsonObject, chosen: PromptCache | None, series: CallSeries, *, is_own: bool
    ) -> JsonObject:
        """Return the request with the marks of the API's prompt cache; the same object if there is
        nothing to add.

        `chosen` is the agent file's setting; `is_own` is whether the request goes to the provider
        itself, not to a server that imitates it.
        """
        return request

    def _require_answer(self, response: JsonView) -> None:
        """Check the response while its status and address are known; `reply` reads its content."""
        if response.get("error"):
            raise error_from_http(200, {}, response, provider=self.key)
        try:
            require_reply(self._answer(response), self.key)
        except UnexpectedFormatError as error:
            told = error_from_http(
                200, {}, response, provider=self.key
            )  # It may describe the error in its own form.
            raise (error if told.kind == "server" else told) from error

    def _answer(self, response: JsonView) -> Answer:
        try:
            return self.read(response)
        except (LookupError, TypeError, AttributeError, ValidationError, RecursionError) as error:
            raise UnexpectedFormatError(json_excerpt(response)) from error

    def _message(self, answer: Answer, calls: list[ToolCall], agent: Agent) -> Message:
        message = Message.assistant(answer.text, own_names(calls, agent))
        message = with_unique_ids(message, ())
        server = self.server(agent)
        content = kept_content(answer.original, self.api, server, [call.id for call in calls])
        if content is not None:
            message.metadata["provider_content"] = {
                "api": self.api,
                "server": server.name,
                "content": content,
            }
        return message


def instructions_of(messages: Sequence[Message]) -> str:
    """Text of all system messages, for an API that takes it separately from the conversation; ""
    for none.
    """
    texts = [message.text for message in messages if message.role in INSTRUCTION_ROLES]
    return "\n\n".join(text for text in texts if text)


def _sampling_options(agent: Agent, names: Mapping[str, str]) -> JsonObject:
    options = _options(agent)
    values = {theirs: getattr(options, ours, None) for ours, theirs in names.items()}
    return {name: value for name, value in values.items() if value is not None}


def _additional_properties(agent: Agent) -> JsonObject:
    options = _options(agent)
    return (options.additional_properties if options else None) or {}


def _options(agent: Agent) -> ModelOptions | None:
    return agent.model.options if agent.model else None


def count(usage: Any, *keys: str) -> int:
    """Return the number of tokens at these keys; 0 for anything that can't be one. Never raises."""
    for key in keys:
        usage = usage.get(key) if isinstance(usage, dict) else None
    if (
        isinstance(usage, bool)
        or not isinstance(usage, int | float)
        or not 0 <= usage <= MAX_TOKENS
    ):
        return 0
    return int(usage)


def read_usage(usage: Any, places: Mapping[str, str]) -> Usage:
    """Return the counts of a usage at these places: field of `Usage` → keys, separated by dots.
    Never raises.
    """
    return Usage(**{field: count(usage, *keys.split(".")) for field, keys in places.items()})


def _word(value: Any) -> str | None:
    return value[:MAX_NAME_CHARS] if isinstance(value, str) else None
