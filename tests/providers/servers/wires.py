"""The three wire formats as strict servers speak them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, ClassVar

from ...support.wire_agents import ANTHROPIC, CHAT, RESPONSES
from .strict import NAME, Json, StrictServer, as_object, filled

DECLINED = "I can't help with that."
KNOWN = {"role", "content", "name", "tool_calls", "tool_call_id", "refusal"}


class ChatServer(StrictServer):
    """Chat Completions."""

    api = CHAT
    error_form = (
        400,
        {
            "error": {
                "message": "{text}",
                "type": "invalid_request_error",
                "param": None,
                "code": None,
            }
        },
    )
    declines: ClassVar[Json] = {
        "message": {"role": "assistant", "content": None, "refusal": DECLINED},
        "finish_reason": "stop",
    }
    """The choice of a reply that is none."""
    gives: ClassVar[Json] = {}
    """Fields of its own in a message; `{mark}` stands for what it wants back."""
    gives_beside: ClassVar[Json] = {}
    """Such fields beside the first call of a message."""
    needs: ClassVar[Json] = {}
    """Fields that it requires of every message with calls, and what is there in those of other
    servers."""
    needs_beside: ClassVar[Json] = {}
    """Such fields of the first call."""

    def response(self, calls: list[tuple[str, tuple[str, str]]], text: str, mark: str) -> Json:
        asked = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id, (name, arguments) in calls
        ]
        message: Json = {"role": "assistant", "content": text or None, **filled(self.gives, mark)}
        if asked:
            asked[0] |= filled(self.gives_beside, mark)
            message["tool_calls"] = asked
        return self._whole(
            {"message": message, "finish_reason": "tool_calls" if asked else "stop"},
            f"r-{mark[-1]}",
        )

    def declined(self) -> Json:
        return self._whole(self.declines, "r-declined")

    def _whole(self, choice: Json, id: str) -> Json:
        return {
            "id": id,
            "object": "chat.completion",
            "model": self.name,
            "choices": [{"index": 0, **choice}],
        }

    def events(self, response: Json) -> list[Json]:
        [choice] = response["choices"]
        fields = dict(choice.get("message", {}))
        calls = fields.pop("tool_calls", [])
        deltas = [{"role": "assistant"}]
        for key, value in fields.items():
            halves = (
                (value[: len(value) // 2], value[len(value) // 2 :])
                if isinstance(value, str)
                else (value,)
            )
            deltas += [{key: half} for half in halves if half and key != "role"]
        for index, call in enumerate(calls):
            text = call["function"]["arguments"]
            opened = {
                **call,
                "index": index,
                "function": {**call["function"], "arguments": text[:3]},
            }
            deltas += [{"tool_calls": [opened]}]
            deltas += [{"tool_calls": [{"index": index, "function": {"arguments": text[3:]}}]}]
        chunk = {"id": response["id"], "object": "chat.completion.chunk", "model": self.name}
        made = [
            {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            for delta in deltas
        ]
        return [
            *made,
            {
                **chunk,
                "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}],
            },
        ]

    def ids_in(self, body: Json) -> list[str]:
        return [
            call["id"] for message in body["messages"] for call in message.get("tool_calls", [])
        ]

    def conversation_problems(self, body: Json) -> Iterable[str]:
        turns = [
            message
            for message in body["messages"]
            if message["role"] not in ("system", "developer")
        ]
        if self.begins_with_user and (not turns or turns[0]["role"] != "user"):
            yield "the first message is not the user's"
        unanswered: list[str] = []
        for message in turns:
            if message["role"] == "tool":
                yield from self._result_problems(message, unanswered)
                continue
            if unanswered:
                yield f"the calls {unanswered} have no result"
            unanswered = [call["id"] for call in message.get("tool_calls", [])]
            yield from self._message_problems(message)
        if unanswered:
            yield f"the calls {unanswered} have no result"

    def _result_problems(self, message: Json, unanswered: list[str]) -> Iterable[str]:
        if message["tool_call_id"] not in unanswered:
            yield f"the result of {message['tool_call_id']!r} follows no call"
        else:
            unanswered.remove(message["tool_call_id"])
        if not isinstance(message["content"], str):
            yield "the content of a result is not a text"

    def _message_problems(self, message: Json) -> Iterable[str]:
        parts = message["content"] if isinstance(message["content"], list) else []
        if not self.sees and any(part["type"] != "text" for part in parts):
            yield "only texts are taken"
        own = {*self.gives, *self.needs}
        yield from (f"the property {key!r} is unsupported" for key in message.keys() - KNOWN - own)
        calls = message.get("tool_calls", [])
        if message["role"] != "assistant" or not calls:
            return
        yield from (
            f"{key} is missing beside the calls" for key in self.needs if not message.get(key)
        )
        yield from (
            f"{key} is missing in the first call"
            for key in self.needs_beside
            if not calls[0].get(key)
        )
        for call in calls:
            yield from _call_problems(call["function"]["name"], call["function"]["arguments"])


def _call_problems(name: str, arguments: str) -> Iterable[str]:
    if not as_object(arguments):
        yield f"the arguments {arguments!r} are not an object"
    if not NAME.fullmatch(name):
        yield f"the name {name!r} is not taken"


class ResponsesServer(StrictServer):
    """OpenAI Responses."""

    api = RESPONSES
    error_form = ChatServer.error_form
    ids = "call_{n:024d}"
    takes = ".{1,64}"
    stores: ClassVar[bool] = True
    """Whether it keeps the items of a response."""

    def response(self, calls: list[tuple[str, tuple[str, str]]], text: str, mark: str) -> Json:
        output: list[Json] = [
            {"type": "reasoning", "id": f"rs_{mark[-1]}", "summary": [], "encrypted_content": mark}
        ]
        if text:
            content = [{"type": "output_text", "text": text, "annotations": []}]
            output.append(
                {"type": "message", "id": f"m{mark[-1]}", "role": "assistant", "content": content}
            )
        output += [
            {
                "type": "function_call",
                "id": f"fc_{id}",
                "call_id": id,
                "name": name,
                "arguments": arguments,
            }
            for id, (name, arguments) in calls
        ]
        return {
            "id": f"resp_{mark[-1]}",
            "object": "response",
            "status": "completed",
            "output": output,
        }

    def declined(self) -> Json:
        content = [{"type": "refusal", "refusal": DECLINED}]
        item = {"type": "message", "id": "m", "role": "assistant", "content": content}
        return {"id": "resp_d", "object": "response", "status": "completed", "output": [item]}

    def events(self, response: Json) -> list[Json]:
        done = [
            {"type": "response.output_item.done", "output_index": index, "item": item}
            for index, item in enumerate(response["output"])
        ]
        return [*done, {"type": "response.completed", "response": response}]

    def ids_in(self, body: Json) -> list[str]:
        return [item["call_id"] for item in body["input"] if item.get("type") == "function_call"]

    def conversation_problems(self, body: Json) -> Iterable[str]:
        if not body["input"]:
            yield "input is empty"
        answered = [
            item["call_id"] for item in body["input"] if item.get("type") == "function_call_output"
        ]
        if sorted(answered) != sorted(self.ids_in(body)):
            yield f"the results {answered} are not those of the calls {self.ids_in(body)}"
        for item in body["input"]:
            if item.get("type") == "function_call":
                yield from _call_problems(item["name"], item["arguments"])
        for tool in body.get("tools", []):
            if "strict" not in tool:
                yield f"the tool {tool['name']!r} is taken as strict, and its schema is not"


class MessagesServer(StrictServer):
    """Anthropic Messages."""

    api = ANTHROPIC
    error_form = (
        400,
        {"type": "error", "error": {"type": "invalid_request_error", "message": "{text}"}},
    )
    ids = "toolu_{n:022d}"
    begins_with_user = True

    def response(self, calls: list[tuple[str, tuple[str, str]]], text: str, mark: str) -> Json:
        content: list[Json] = [{"type": "thinking", "thinking": "Hm.", "signature": mark}]
        content += [{"type": "text", "text": text}] if text else []
        content += [
            {
                "type": "tool_use",
                "id": id,
                "name": name,
                "input": json.loads(arguments) if as_object(arguments) else {},
            }
            for id, (name, arguments) in calls
        ]
        return self._message(content, "tool_use" if calls else "end_turn")

    def declined(self) -> Json:
        return self._message([], "refusal")

    def _message(self, content: list[Json], stop_reason: str) -> Json:
        usage = {"input_tokens": 1, "output_tokens": 1}
        head = {"id": "msg", "type": "message", "role": "assistant", "model": self.name}
        return {**head, "content": content, "stop_reason": stop_reason, "usage": usage}

    def events(self, response: Json) -> list[Json]:
        events: list[Json] = [
            {"type": "message_start", "message": {**response, "content": [], "stop_reason": None}}
        ]
        for index, block in enumerate(response["content"]):
            events.append(
                {"type": "content_block_start", "index": index, "content_block": _opened(block)}
            )
            deltas = [
                {"type": "content_block_delta", "index": index, "delta": delta}
                for delta in _deltas(block)
            ]
            events += [*deltas, {"type": "content_block_stop", "index": index}]
        end = {"stop_reason": response["stop_reason"]}
        return [
            *events,
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]

    def ids_in(self, body: Json) -> list[str]:
        blocks = (block for turn in body["messages"] for block in turn["content"])
        return [block["id"] for block in blocks if block["type"] == "tool_use"]

    def conversation_problems(self, body: Json) -> Iterable[str]:
        if "max_tokens" not in body:
            yield "max_tokens: Field required"
        asked: list[str] = []
        for number, turn in enumerate(body["messages"]):
            if turn["role"] != ("assistant" if number % 2 else "user"):
                yield "the turns do not alternate, beginning with the user's"
            blocks = turn["content"]
            results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
            if sorted(results) != sorted(asked) or any(
                block["type"] != "tool_result" for block in blocks[: len(results)]
            ):
                yield f"the results {results} do not answer the calls {asked} first of all"
            uses = [block for block in blocks if block["type"] == "tool_use"]
            asked = [block["id"] for block in uses]
            yield from (
                f"the name {use['name']!r} is not taken"
                for use in uses
                if not NAME.fullmatch(use["name"])
            )
            yield from (
                f"the input {use['input']!r} is not an object"
                for use in uses
                if not isinstance(use["input"], dict)
            )
        if asked:
            yield f"the calls {asked} have no result"


def _opened(block: Json) -> Json:
    empty: Json = {"input": {}, "text": "", "thinking": "", "signature": ""}
    return {key: empty.get(key, value) for key, value in block.items()}


def _deltas(block: Json) -> list[Any]:
    match block["type"]:
        case "tool_use":
            text = json.dumps(block["input"])
            return [
                {"type": "input_json_delta", "partial_json": piece}
                for piece in (text[:3], text[3:])
            ]
        case "text":
            return [{"type": "text_delta", "text": block["text"]}]
    signature = {"type": "signature_delta", "signature": block["signature"]}
    return [{"type": "thinking_delta", "thinking": block["thinking"]}, signature]
