"""The Responses format: reads requests, finds what the real API would refuse, writes responses
(§7.4, §8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from ...json_types import JsonObject
from ...messages import Message, ToolCall
from ..script import Api
from .chat import CountedReply, argument_pieces, text_of, typed_frames, words
from .chat import error as error

API: Api = "responses"
REQUEST_ID_HEADER = "x-request-id"
Event = JsonObject


def count_turns(body: JsonObject) -> int:
    """Groups of items that the model wrote: reasoning, text and calls with no other item between
    are one turn.
    """
    by_model = [_is_by_model(item) for item in _items(body)]
    return sum(
        now and not before for before, now in zip([False, *by_model], by_model, strict=False)
    )


def read_messages(body: JsonObject) -> list[Message]:
    """Return the conversation of a request in the neutral form."""
    messages = [Message.system(body["instructions"])] if body.get("instructions") else []
    previous_is_by_model = False
    for item in _items(body):
        if _is_by_model(item) and not previous_is_by_model:
            messages.append(Message.assistant())
        previous_is_by_model = _is_by_model(item)
        _read_item(item, messages)
    return messages


def find_fault(body: JsonObject) -> str | None:
    """Return why the real API would answer 400, or None: every function call needs its output,
    every output its call.
    """
    unanswered: list[str] = []
    for item in _items(body):
        if item.get("type") == "function_call":
            unanswered.append(item["call_id"])
        elif item.get("type") == "function_call_output":
            if item["call_id"] not in unanswered:
                return (
                    f"No tool call found for function call output with call_id {item['call_id']}."
                )
            unanswered.remove(item["call_id"])
    return f"No tool output found for function call {unanswered[0]}." if unanswered else None


def _items(body: JsonObject) -> list[JsonObject]:
    given = body.get("input", [])
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def _is_by_model(item: JsonObject) -> bool:
    return item.get("type") in ("function_call", "reasoning") or item.get("role") == "assistant"


def _read_item(item: JsonObject, messages: list[Message]) -> None:
    kind = item.get("type", "message")
    if kind == "message" and item["role"] == "assistant":
        messages[-1] = Message.assistant(
            messages[-1].text + text_of(item.get("content")), messages[-1].tool_calls
        )
    elif kind == "message":
        messages.append(Message(role=item["role"], parts=text_of(item.get("content"))))
    elif kind == "function_call":
        call = ToolCall(id=item["call_id"], name=item["name"], arguments=item["arguments"])
        messages[-1] = Message.assistant(messages[-1].text, [*messages[-1].tool_calls, call])
    elif kind == "function_call_output":
        text = text_of(item["output"])
        messages.append(
            Message(role="tool", parts=text, metadata={"tool_call_id": item["call_id"]})
        )


def answer(given: CountedReply) -> JsonObject:
    """The body of a response that is not streamed."""
    return _response(given, _final_status(given), _output(given))


def stream(given: CountedReply) -> Iterator[bytes]:
    """Yield the server-sent events of a streamed response."""
    return typed_frames(
        event | {"sequence_number": number} for number, event in enumerate(_events(given))
    )


def _events(given: CountedReply) -> Iterator[Event]:
    """Yield the stream's events. An error follows the reply's content, and ends the stream."""
    started = _response(given, "in_progress", [])
    yield {"type": "response.created", "response": started}
    yield {"type": "response.in_progress", "response": started}
    items = _output(given)
    yield from chain.from_iterable(_item_events(index, item) for index, item in enumerate(items))
    if given.reply.error is not None:
        cause = given.reply.error.get("error", given.reply.error)
        yield {
            "type": "error",
            "code": cause.get("code"),
            "message": cause.get("message", ""),
            "param": None,
        }
        return
    status = _final_status(given)
    yield {"type": f"response.{status}", "response": _response(given, status, items)}


def _final_status(given: CountedReply) -> str:
    return "incomplete" if given.reply.finish_reason else "completed"


def _response(given: CountedReply, status: str, output: list[JsonObject]) -> JsonObject:
    reason = given.reply.finish_reason if status == "incomplete" else None
    return {
        "id": f"resp_scripted_{given.step}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": None,
        "metadata": {},
        "model": given.model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None if status == "in_progress" else _usage(given),
    }


def _usage(given: CountedReply) -> JsonObject:
    return {
        "input_tokens": given.input_tokens,
        "input_tokens_details": {"cached_tokens": given.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": given.output_tokens,
        "output_tokens_details": {"reasoning_tokens": len(given.reply.thinking or "") // 4},
        "total_tokens": given.input_tokens + given.output_tokens,
    }


def _output(given: CountedReply) -> list[JsonObject]:
    reply, items = given.reply, list[JsonObject]()
    if reply.thinking is not None:
        summary = [{"type": "summary_text", "text": reply.thinking}]
        items.append({"id": f"rs_scripted_{given.step}", "type": "reasoning", "summary": summary})
    items += reply.provider_items
    if reply.text or not reply.tool_calls:
        content = [{"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}]
        message = {"id": f"msg_scripted_{given.step}", "type": "message", "role": "assistant"}
        items.append(message | {"status": "completed", "content": content})
    for number, call in enumerate(reply.tool_calls):
        item = {
            "id": f"fc_scripted_{given.step}_{number}",
            "type": "function_call",
            "status": "completed",
        }
        items.append(item | {"call_id": call.id, "name": call.name, "arguments": call.arguments})
    return items


def _item_events(index: int, item: JsonObject) -> Iterator[Event]:
    place = {"output_index": index, "item_id": item["id"]}
    empty, content = _CONTENT.get(item["type"], ({"status": "in_progress"}, _no_events))
    yield {"type": "response.output_item.added", "output_index": index, "item": item | empty}
    yield from (place | event for event in content(item))
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _reasoning_events(item: JsonObject) -> Iterator[Event]:
    text, place = item["summary"][0]["text"], {"summary_index": 0}
    name = "response.reasoning_summary"
    yield place | {"type": f"{name}_part.added", "part": {"type": "summary_text", "text": ""}}
    yield from (place | {"type": f"{name}_text.delta", "delta": piece} for piece in words(text))
    yield place | {"type": f"{name}_text.done", "text": text}
    yield place | {"type": f"{name}_part.done", "part": item["summary"][0]}


def _message_events(item: JsonObject) -> Iterator[Event]:
    part, place = item["content"][0], {"content_index": 0}
    yield place | {"type": "response.content_part.added", "part": part | {"text": ""}}
    for piece in words(part["text"]):
        yield place | {"type": "response.output_text.delta", "delta": piece, "logprobs": []}
    yield place | {"type": "response.output_text.done", "text": part["text"], "logprobs": []}
    yield place | {"type": "response.content_part.done", "part": part}


def _call_events(item: JsonObject) -> Iterator[Event]:
    name = "response.function_call_arguments"
    yield from (
        {"type": f"{name}.delta", "delta": piece} for piece in argument_pieces(item["arguments"])
    )
    yield {"type": f"{name}.done", "name": item["name"], "arguments": item["arguments"]}


def _no_events(item: JsonObject) -> Iterator[Event]:
    yield from ()


_CONTENT: dict[str, tuple[JsonObject, Callable[[JsonObject], Iterator[Event]]]] = {
    "reasoning": ({"summary": []}, _reasoning_events),
    "message": ({"status": "in_progress", "content": []}, _message_events),
    "function_call": ({"status": "in_progress", "arguments": ""}, _call_events),
}
"""Kind of output item → what it lacks while it is under way, and the events between its first and
its last."""
