"""Anthropic Messages: its requests, responses and streams (§7.5, §8).

https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..agents import Agent, PromptCache
from ..declared_tools import CustomTool, Property
from ..json_types import JsonObject, JsonView
from ..messages import AudioPart, FilePart, ImagePart, Message, Part, ProviderCall, TextPart, Usage
from ..schema import CLOSED, answer_schema
from .base import (
    BLOCK_SIZE,
    CallSeries,
    Delta,
    FunctionDefinition,
    StreamAssembler,
    provider_call,
    weight,
)
from .ends import NO_END, Answer, ends
from .errors import error_from_http
from .memo import Memo
from .outgoing import arguments_object, private_content, same_calls
from .prompt_cache import with_cache_control
from .tool_call_text import (
    AcceptedMedia,
    Call,
    base64_data,
    calls_of,
    only_text,
    read_calls,
    sendable_parts,
)
from .wire_format import INSTRUCTION_ROLES, WireFormat, instructions_of, read_usage

DEFAULT_MAX_TOKENS = 4096
"""The API requires a limit (§7.5). A call raises it to the model's maximum, unless the file sets
one."""
_UNKNOWN_MODEL_TOKENS = 32_000
_MOST_TOKENS: tuple[tuple[str, int], ...] = (
    (r"claude-(?:instant|2|3-(?:opus|sonnet|haiku))", 4_096),
    (r"claude-3-5", 8_192),
    (r"claude-opus-4(?:-1|-0|-\d{8}|@|$)", 32_000),
    (r"claude-(?:3-7|sonnet-4|haiku-4|opus-4)", 64_000),
)
"""Family of models → the maximum of tokens in one answer
(https://docs.claude.com/en/docs/about-claude/models), in order."""

LAST_IS_WHOLE = "last_block_is_whole"
"""Marks an assembled message that was cut short after the end of its last block, a tool call."""
_THINKING = ("thinking", "redacted_thinking")
_USAGE = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cached_input_tokens": "cache_read_input_tokens",
    "reasoning_tokens": "output_tokens_details.thinking_tokens",
    "cache_write_tokens": "cache_creation_input_tokens",
    "cache_write_1h_tokens": "cache_creation.ephemeral_1h_input_tokens",
}


class AnthropicMessages(WireFormat):
    """`provider: anthropic`."""

    api = imitated = "anthropic"
    expected = "a message with a list `content` of blocks"
    path = "/v1/messages"
    title = "Anthropic"
    media = {
        "image": AcceptedMedia(
            url=True, types=("image/png", "image/jpeg", "image/gif", "image/webp")
        ),
        "file": AcceptedMedia(url=True, types=("application/pdf", "text/")),
    }
    defaults = {"max_tokens": DEFAULT_MAX_TOKENS}
    options = {
        "max_output_tokens": "max_tokens",
        "temperature": "temperature",
        "top_p": "top_p",
        "top_k": "top_k",
        "stop_sequences": "stop_sequences",
    }
    merged = frozenset({"output_config"})
    needs_message = True
    has_strict_tools = False

    def conversation(self, messages: Sequence[Message]) -> JsonObject:
        request: JsonObject = {"messages": _turns(messages)}
        instructions = [message for message in messages if message.role in INSTRUCTION_ROLES]
        if any(_own_mark(part) for message in instructions for part in message.parts):
            request["system"] = [
                block for message in instructions for block in _content(message.parts)
            ]
        elif system := instructions_of(instructions):
            request["system"] = system
        return request

    def tools(self, functions: Sequence[FunctionDefinition], *, may_call_tools: bool) -> JsonObject:
        """Declare the functions in any case: the API refuses a conversation that mentions
        undeclared tools.
        """
        declared = super().tools(functions, may_call_tools=True)
        return declared if may_call_tools else {**declared, "tool_choice": {"type": "none"}}

    def tool(self, definition: FunctionDefinition) -> JsonObject:
        described = {"description": definition.description} if definition.description else {}
        return {"name": definition.name, **described, "input_schema": definition.parameters}

    def provider_tool(self, tool: CustomTool) -> JsonObject:
        return {"name": tool.name, **super().provider_tool(tool)}

    def output_format(self, outputs: Sequence[Property]) -> JsonObject:
        return {
            "output_config": {
                "format": {"type": "json_schema", "schema": answer_schema(outputs, CLOSED)}
            }
        }

    def read(self, response: JsonView) -> Answer:
        blocks = response["content"]
        text, calls = _text_and_calls(blocks, response.get("id"))
        is_told = response.get(LAST_IS_WHOLE) is True
        return Answer(
            text=text,
            calls=calls,
            usage=_usage(response.get("usage")),
            finish_reason=response.get("stop_reason"),
            # If only the reply's value is known, and not its text, a reply that is cut off ends
            # within its last block.
            open_calls=[len(calls) - 1]
            if calls and blocks[-1]["type"] == "tool_use" and not is_told
            else (),
            provider_calls=_provider_calls(blocks),
            original=list(blocks) if blocks != _rebuilt(text, calls) else None,
        )

    def for_call(self, agent: Agent, request: JsonObject) -> JsonObject:
        """Raise the limit to the model's own; disable thinking if the last turn has none, as the
        API requires.
        """
        if "max_tokens" not in self._asked(agent):
            found = (
                most
                for family, most in _MOST_TOKENS
                if re.search(family, str(request.get("model")))
            )
            request = {**request, "max_tokens": next(found, _UNKNOWN_MODEL_TOKENS)}
        thinking = request.get("thinking")
        if (
            isinstance(thinking, Mapping)
            and thinking.get("type") == "enabled"
            and _lacks_thoughts(request["messages"])
        ):
            return {key: value for key, value in request.items() if key != "thinking"}
        return request

    def for_cache(
        self, request: JsonObject, chosen: PromptCache | None, series: CallSeries, *, is_own: bool
    ) -> JsonObject:
        return with_cache_control(request, chosen, series)

    def assembler(self) -> StreamAssembler:
        return MessagesStream(self.key)


def _turn(message: Message) -> list[JsonObject]:
    """Return the turn of one message; none for a message without content, because the API refuses
    blank text.
    """
    blocks = [] if message.role in INSTRUCTION_ROLES else _blocks(message)
    return (
        [{"role": "assistant" if message.role == "assistant" else "user", "content": blocks}]
        if blocks
        else []
    )


def _join(turns: list[JsonObject], more: list[JsonObject]) -> None:
    """Keep user and assistant turns alternating, and the tool results of a user turn before
    anything else.
    """
    if not (turns and more and turns[-1]["role"] == more[0]["role"]):
        turns += more
        return
    content, blocks = turns[-1]["content"], more[0]["content"]
    end = _end_of_results(content) if blocks[0]["type"] == "tool_result" else len(content)
    turns[-1] = {"role": turns[-1]["role"], "content": [*content[:end], *blocks, *content[end:]]}


_turns = Memo[Message, JsonObject](_turn, _join)


def _lacks_thoughts(turns: Sequence[JsonObject]) -> bool:
    """Return whether the last turn's tool calls lack the thinking that the API requires before
    them.
    """
    for turn in reversed(turns):
        blocks = turn["content"]
        if turn["role"] == "assistant":
            return (
                any(block["type"] == "tool_use" for block in blocks)
                and blocks[0]["type"] not in _THINKING
            )
        if all(block["type"] != "tool_result" for block in blocks):
            return False
    return False


def _end_of_results(content: Sequence[JsonObject]) -> int:
    end = len(content)
    while end and content[end - 1]["type"] != "tool_result":
        end -= 1
    return end


def _blocks(message: Message) -> list[JsonObject]:
    if message.role == "tool":
        return [_tool_result(message)]
    if message.role != "assistant":
        return _content(_sendable(message))
    original = private_content(message, "anthropic")
    if original is not None:
        return _original_blocks(message, original)
    text = only_text(message.parts)
    return _rebuilt(message.text if text is None else text, calls_of(message))


def _sendable(message: Message) -> list[Part]:
    return sendable_parts(message, AnthropicMessages.media, AnthropicMessages.title)


def _content(parts: Sequence[Part]) -> list[JsonObject]:
    said = (part for part in parts if not (isinstance(part, TextPart) and _is_blank(part.value)))
    return [_part(part) | _own_mark(part) for part in said]


def _own_mark(part: Part) -> JsonObject:
    """Return the part's own prompt cache mark."""
    own = (part.model_extra or {}).get("cache_control")
    return {"cache_control": own} if own else {}


def _part(part: Part) -> JsonObject:
    match part:
        case TextPart():
            return {"type": "text", "text": part.value}
        case ImagePart():
            return {"type": "image", "source": _source(part, "image/png")}
        case FilePart():
            titled = {"title": part.filename} if part.filename else {}
            return {"type": "document", "source": _source(part, "application/pdf"), **titled}
        case AudioPart():
            raise AssertionError("`media` has no audio")


def _source(part: ImagePart | FilePart, media_type: str) -> dict[str, str]:
    content = base64_data(part)
    if content is None:
        return {"type": "url", "url": part.source}
    if content.media_type and content.media_type.startswith("text/"):
        text = base64.b64decode(content.data).decode(errors="replace")
        return {"type": "text", "media_type": "text/plain", "data": text}
    return {"type": "base64", "media_type": content.media_type or media_type, "data": content.data}


def _tool_result(message: Message) -> JsonObject:
    """Write all texts as one string (§9.5), and mark a result other than a success as an error."""
    parts = _sendable(message)
    text = only_text(parts)
    block: JsonObject = {
        "type": "tool_result",
        "tool_use_id": message.metadata.get("tool_call_id") or "",
        "content": _content(parts) if text is None else text,
    }
    if message.metadata.get("status", "success") != "success":
        block["is_error"] = True
    return block


def _original_blocks(message: Message, original: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the original blocks; if the text or the calls have changed, the thinking and the
    current content.

    Blank text is left out: the API may send it, but refuses it in a request.
    """
    calls = calls_of(message)
    is_cut_off = any(isinstance(block.get("input"), str) for block in original)
    text, asked_first = _text_and_calls(original, None)
    if is_cut_off or text != message.text or not same_calls(asked_first, calls):
        return [block for block in original if block["type"] in _THINKING] + _rebuilt(
            message.text, calls
        )
    kept = (
        block for block in original if not (block["type"] == "text" and _is_blank(block["text"]))
    )
    asked = iter(calls)
    return [
        block | _name_and_id(next(asked)) if block["type"] == "tool_use" else block
        for block in kept
    ]


def _name_and_id(call: Call) -> JsonObject:
    return {"id": call.id, "name": call.name}


def _rebuilt(text: str, calls: Sequence[Call]) -> list[JsonObject]:
    spoken: list[JsonObject] = [] if _is_blank(text) else [{"type": "text", "text": text}]
    return spoken + [
        {"type": "tool_use", **_name_and_id(call), "input": arguments_object(call.arguments)}
        for call in calls
    ]


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


def _text_and_calls(blocks: Sequence[JsonView], response_id: Any) -> tuple[str, list[Call]]:
    """All text blocks, concatenated (§18-13), and the tool calls."""
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    used = [block for block in blocks if block["type"] == "tool_use"]
    return text, read_calls(
        [(block.get("id"), block.get("name"), block.get("input")) for block in used], response_id
    )


def _provider_calls(blocks: Sequence[JsonView]) -> list[ProviderCall]:
    """Each `server_tool_use` and `mcp_tool_use`, with its result: a block `…_tool_result`."""
    results = {
        block["tool_use_id"]: block.get("content") for block in blocks if "tool_use_id" in block
    }
    calls = []
    for block in blocks:
        if block["type"] in ("server_tool_use", "mcp_tool_use"):
            name, id = block.get("name") or block["type"], block.get("id") or ""
            came = results.get(id)
            failure = came.get("error_code") if isinstance(came, Mapping) else None
            details = {
                "input": block.get("input"),
                "error": failure,
                "found": None if failure else came,
            }
            calls.append(provider_call(name, id, "failed" if failure else "completed", details))
    return calls


def _usage(usage: Any) -> Usage:
    """Return the usage: the API counts cached tokens apart from the input; `Usage` counts them as
    part of it.
    """
    counts = read_usage(usage, _USAGE)
    counts.input_tokens += counts.cached_input_tokens + counts.cache_write_tokens
    counts.total_tokens = counts.input_tokens + counts.output_tokens
    counts.cache_write_1h_tokens = min(counts.cache_write_1h_tokens, counts.cache_write_tokens)
    return counts


_TEXT_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""Type of a delta → the key of its text, in the delta as in the block that it continues."""


class MessagesStream(StreamAssembler):
    """Events open and continue blocks by their index; the usage at the end completes the one at the
    start.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._message: JsonObject = {}
        self._blocks: dict[int, _Block] = {}
        self._stopped: Any = None
        """The index of the last closed block."""

    def add(self, event: JsonView) -> list[Delta]:
        match None if self.is_complete else event.get("type"):
            case "message_start":
                self._message = {
                    **event["message"],
                    "usage": _counts(event["message"].get("usage")),
                }
            case "content_block_start":
                self._blocks[event["index"]] = _Block(event["content_block"])
                self.size += BLOCK_SIZE + weight(event["content_block"])
            case "content_block_stop":
                self._stopped = event["index"]
            case "content_block_delta":
                return self._add_delta(self._blocks[event["index"]], event["delta"])
            case "message_delta":
                self._message |= event["delta"] | {
                    "usage": self._message["usage"] | _counts(event.get("usage"))
                }
            case "message_stop":
                self.is_complete = True
            case "error":
                raise error_from_http(None, {}, event, provider=self._provider)
        return []

    def _add_delta(self, block: _Block, delta: JsonView) -> list[Delta]:
        self.size += sum(weight(value) for key, value in delta.items() if key != "type")
        return block.add(delta)

    def response(self) -> JsonObject:
        indexes = sorted(self._blocks)
        content = [self._blocks[index].assembled() for index in indexes]
        word = self._message.get("stop_reason") or NO_END
        is_closed = indexes[-1:] == [self._stopped] and isinstance(content[-1].get("input"), dict)
        is_whole = {LAST_IS_WHOLE: True} if is_closed and ends().get(word) == "cut_short" else {}
        return {**self._message, "content": content, "stop_reason": word, **is_whole}


class _Block:
    """One content block and the pieces of it that have arrived."""

    def __init__(self, opened: JsonObject) -> None:
        self._opened = opened
        self._pieces: dict[str, list[str]] = {}
        self._citations: list[Any] = []

    def add(self, delta: JsonView) -> list[Delta]:
        kind = delta["type"]
        if kind == "input_json_delta":
            self._pieces.setdefault("input", []).append(delta["partial_json"])
        elif kind == "citations_delta":
            self._citations.append(delta["citation"])
        elif kind in _TEXT_DELTAS:
            return self._add_text(_TEXT_DELTAS[kind], delta)
        return []

    def assembled(self) -> JsonObject:
        """Return the block in the form of a response that is not streamed."""
        block = dict(self._opened)
        for key, pieces in self._pieces.items():
            text = "".join(pieces)
            block[key] = _input(text, block) if key == "input" else (block.get(key) or "") + text
        if self._citations:
            block["citations"] = [*(block.get("citations") or []), *self._citations]
        return block

    def _add_text(self, key: str, delta: JsonView) -> list[Delta]:
        text = delta[key]
        if not isinstance(text, str):
            raise TypeError(f"expected text, got {text!r:.80}")
        self._pieces.setdefault(key, []).append(text)
        if key == "signature" or not text:
            return []
        return [Delta("thinking" if key == "thinking" else "text", text)]


def _counts(usage: Any) -> JsonObject:
    """Return the counts in an event; a later event omits unchanged counts, or sends them as
    null.
    """
    return (
        {key: count for key, count in usage.items() if count is not None}
        if isinstance(usage, Mapping)
        else {}
    )


def _input(text: str, block: JsonView) -> Any:
    """Return a tool's arguments, parsed; the text itself if it was cut off (§9.8 turns that into a
    tool result).
    """
    if not text:
        return block.get("input") or {}
    try:
        return json.loads(text)
    except ValueError:
        return text
