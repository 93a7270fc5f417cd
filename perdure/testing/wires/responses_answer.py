"""Writes a reply as a Responses answer, whole or streamed (§7.4, §8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from .answer import Answer, argument_pieces, typed_frames, words
from .chat import error

__all__ = ["answer", "error", "stream"]

Event = dict[str, Any]


def answer(given: Answer) -> dict[str, Any]:
    return _response(given, _final_status(given), _output(given))


def stream(given: Answer) -> Iterator[bytes]:
    return typed_frames(event | {"sequence_number": number} for number, event in enumerate(_events(given)))


def _events(given: Answer) -> Iterator[Event]:
    started = _response(given, "in_progress", [])
    yield {"type": "response.created", "response": started}
    yield {"type": "response.in_progress", "response": started}
    items = _output(given)
    yield from chain.from_iterable(_item_events(index, item) for index, item in enumerate(items))
    if given.reply.error is not None:
        cause = given.reply.error.get("error", given.reply.error)
        yield {"type": "error", "code": cause.get("code"), "message": cause.get("message", ""), "param": None}
        return
    status = _final_status(given)
    yield {"type": f"response.{status}", "response": _response(given, status, items)}


def _final_status(given: Answer) -> str:
    return "incomplete" if given.reply.finish_reason else "completed"


def _response(given: Answer, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
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


def _usage(given: Answer) -> dict[str, Any]:
    return {
        "input_tokens": given.input_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": given.output_tokens,
        "output_tokens_details": {"reasoning_tokens": len(given.reply.thinking or "") // 4},
        "total_tokens": given.input_tokens + given.output_tokens,
    }


def _output(given: Answer) -> list[dict[str, Any]]:
    reply, items = given.reply, list[dict[str, Any]]()
    if reply.thinking is not None:
        summary = [{"type": "summary_text", "text": reply.thinking}]
        items.append({"id": f"rs_scripted_{given.step}", "type": "reasoning", "summary": summary})
    if reply.text or not reply.tool_calls:
        content = [{"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}]
        message = {"id": f"msg_scripted_{given.step}", "type": "message", "role": "assistant"}
        items.append(message | {"status": "completed", "content": content})
    for number, call in enumerate(reply.tool_calls):
        item = {"id": f"fc_scripted_{given.step}_{number}", "type": "function_call", "status": "completed"}
        items.append(item | {"call_id": call.id, "name": call.name, "arguments": call.arguments})
    return items


def _item_events(index: int, item: dict[str, Any]) -> Iterator[Event]:
    place = {"output_index": index, "item_id": item["id"]}
    empty, content = _CONTENT[item["type"]]
    yield {"type": "response.output_item.added", "output_index": index, "item": item | empty}
    yield from (place | event for event in content(item))
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _reasoning_events(item: dict[str, Any]) -> Iterator[Event]:
    text, place = item["summary"][0]["text"], {"summary_index": 0}
    name = "response.reasoning_summary"
    yield place | {"type": f"{name}_part.added", "part": {"type": "summary_text", "text": ""}}
    yield from (place | {"type": f"{name}_text.delta", "delta": piece} for piece in words(text))
    yield place | {"type": f"{name}_text.done", "text": text}
    yield place | {"type": f"{name}_part.done", "part": item["summary"][0]}


def _message_events(item: dict[str, Any]) -> Iterator[Event]:
    part, place = item["content"][0], {"content_index": 0}
    yield place | {"type": "response.content_part.added", "part": part | {"text": ""}}
    for piece in words(part["text"]):
        yield place | {"type": "response.output_text.delta", "delta": piece, "logprobs": []}
    yield place | {"type": "response.output_text.done", "text": part["text"], "logprobs": []}
    yield place | {"type": "response.content_part.done", "part": part}


def _call_events(item: dict[str, Any]) -> Iterator[Event]:
    name = "response.function_call_arguments"
    yield from ({"type": f"{name}.delta", "delta": piece} for piece in argument_pieces(item["arguments"]))
    yield {"type": f"{name}.done", "name": item["name"], "arguments": item["arguments"]}


_CONTENT: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], Iterator[Event]]]] = {
    "reasoning": ({"summary": []}, _reasoning_events),
    "message": ({"status": "in_progress", "content": []}, _message_events),
    "function_call": ({"status": "in_progress", "arguments": ""}, _call_events),
}
"""Kind of output item → what it lacks while it is under way, and the events between its first and its last."""
