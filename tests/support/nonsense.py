"""Kinds of nonsense that a model server may answer, each on three APIs; `nonsense.txt` says what
follows each.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .recorded_server import Received, Recorded, RecordedServer

Json = dict[str, Any]
CHAT, RESPONSES, ANTHROPIC = APIS = ("chat", "responses", "anthropic")
FINE = "It is fine."
TOOL = "look"
ARGUMENTS = '{"text": "a"}'


def whole(api: str, *, text: Any = FINE, calls: bool = False) -> Json:
    """A response with nothing wrong: an answer, or a call."""
    match api:
        case "chat":
            function = {"name": TOOL, "arguments": ARGUMENTS}
            asked = (
                {"tool_calls": [{"id": "c", "type": "function", "function": function}]}
                if calls
                else {}
            )
            message = {"role": "assistant", "content": None if calls else text, **asked}
            choice = {
                "index": 0,
                "message": message,
                "finish_reason": "tool_calls" if calls else "stop",
            }
            return {"id": "x", "model": "m", "choices": [choice], "usage": {"total_tokens": 5}}
        case "responses":
            called = {"type": "function_call", "call_id": "c", "name": TOOL, "arguments": ARGUMENTS}
            part = {"type": "output_text", "text": text}
            said = {"type": "message", "role": "assistant", "content": [part]}
            output = [called if calls else said]
            return {
                "id": "r",
                "model": "m",
                "status": "completed",
                "output": output,
                "usage": {"total_tokens": 5},
            }
    used = {"type": "tool_use", "id": "c", "name": TOOL, "input": json.loads(ARGUMENTS)}
    content = [used if calls else {"type": "text", "text": text}]
    word = "tool_use" if calls else "end_turn"
    return {
        "id": "a",
        "model": "m",
        "role": "assistant",
        "content": content,
        "stop_reason": word,
        "usage": {},
    }


_CALL = "choices.0.message.tool_calls.0"
PLACES: Mapping[str, tuple[str, str, str]] = {
    "the list": ("choices", "output", "content"),
    "its first item": ("choices.0", "output.0", "content.0"),
    "the message": ("choices.0.message", "output.0.content", "content.0"),
    "the text": ("choices.0.message.content", "output.0.content.0.text", "content.0.text"),
    "the parts": ("choices.0.message.content", "output.0.content", "content"),
    "the role": ("choices.0.message.role", "output.0.role", "role"),
    "the word": ("choices.0.finish_reason", "status", "stop_reason"),
    "the usage": ("usage", "usage", "usage"),
    "the id": ("id", "id", "id"),
    "the model": ("model", "model", "model"),
    "the calls": ("choices.0.message.tool_calls", "output", "content"),
    "the call": (_CALL, "output.0", "content.0"),
    "the function": (f"{_CALL}.function", "output.0", "content.0"),
    "the name": (f"{_CALL}.function.name", "output.0.name", "content.0.name"),
    "the arguments": (f"{_CALL}.function.arguments", "output.0.arguments", "content.0.input"),
    "the call's id": (f"{_CALL}.id", "output.0.call_id", "content.0.id"),
}
"""What each API has, by its place."""


def edited(api: str, place: str, odd: Any) -> Json:
    """A response with something odd in that place."""
    response = whole(
        api, calls="call" in place or place in ("the function", "the name", "the arguments")
    )
    *steps, last = (
        int(step) if step.isdigit() else step for step in PLACES[place][APIS.index(api)].split(".")
    )
    inner: Any = response
    for step in steps:
        inner = inner[step]
    inner[last] = odd
    return response


def sse(
    events: Iterable[Any], *, line: bytes = b"\n", before: bytes = b"", done: bytes = b""
) -> Recorded:
    """A stream of events; bytes are sent as they are."""
    sent = [
        each if isinstance(each, bytes) else b"data: " + json.dumps(each).encode() + line * 2
        for each in events
    ]
    return Recorded.of_stream(before + b"".join(sent) + done)


def events(api: str, *, calls: bool = False) -> list[Any]:
    """The events of a stream with nothing wrong."""
    response = whole(api, calls=calls)
    match api:
        case "chat":
            message = response["choices"][0]["message"]
            asked = [{"index": 0, **call} for call in message.get("tool_calls", ())]
            delta = {"tool_calls": asked} if calls else {"content": FINE}
            word = {"delta": {}, "finish_reason": response["choices"][0]["finish_reason"]}
            return [
                *({"id": "x", "choices": [choice]} for choice in ({"delta": delta}, word)),
                b"data: [DONE]\n\n",
            ]
        case "responses":
            item = response["output"][0]
            said = {"type": "response.output_text.delta", "delta": "" if calls else FINE}
            done = {"type": "response.output_item.done", "output_index": 0, "item": item}
            return [
                said,
                done,
                {"type": "response.completed", "response": {**response, "output": []}},
            ]
    block = response["content"][0]
    begun = {"type": "message_start", "message": {"id": "a", "content": [], "usage": {}}}
    opened = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {**block, "input": {}, "text": ""},
    }
    delta = (
        {"type": "input_json_delta", "partial_json": ARGUMENTS}
        if calls
        else {"type": "text_delta", "text": FINE}
    )
    added: Json = {"type": "content_block_delta", "index": 0, "delta": delta}
    word = {"type": "message_delta", "delta": {"stop_reason": response["stop_reason"]}, "usage": {}}
    return [
        begun,
        opened,
        added,
        {"type": "content_block_stop", "index": 0},
        word,
        {"type": "message_stop"},
    ]


DEEP: Any = json.loads("[" * 210 + "]" * 210)
LONG = "x" * 10_000
OF_CODE = {"$LONG": LONG, "$DEEP": DEEP, "$OPEN": "[" * 100_000, "$DIGITS": "1" * 5000}
"""Values of `nonsense.json` that are too long to write down."""


def _replaced(value: Any, old: Any, new: Any) -> Any:
    """The value with another one wherever there is the old one."""
    if type(value) is type(old) and value == old:
        return new
    if isinstance(value, dict):
        return {key: _replaced(each, old, new) for key, each in value.items()}
    return [_replaced(each, old, new) for each in value] if isinstance(value, list) else value


def _read() -> Json:
    """What stands in an answer's places, bodies (bytes as Latin-1), errors in a 200, and statuses
    with their bodies and headers.
    """
    values = json.loads(Path(__file__).with_name("nonsense.json").read_text(encoding="utf-8"))
    for word, value in OF_CODE.items():
        values = _replaced(values, word, value)
    return dict(values)


_VALUES = _read()
_SENT: Mapping[str, Callable[[str], Recorded]] = {
    "gzip that is none": lambda api: Recorded.of_json(
        whole(api), headers={"content-encoding": "gzip"}
    ),
    "gzip without a word": lambda api: Recorded(gzip.compress(json.dumps(whole(api)).encode())),
    "gzip that is cut": lambda api: Recorded(
        _packed(api)[:-30], headers={"content-encoding": "gzip"}
    ),
    "gzip twice": lambda api: Recorded(
        gzip.compress(_packed(api)), headers={"content-encoding": "gzip"}
    ),
    "an encoding that is none": lambda api: Recorded.of_json(
        whole(api), headers={"content-encoding": "novel"}
    ),
    "deflate that is none": lambda api: Recorded.of_json(
        whole(api), headers={"content-encoding": "deflate"}
    ),
    "a BOM": lambda api: Recorded(b"\xef\xbb\xbf" + json.dumps(whole(api)).encode()),
    "UTF-16": lambda api: Recorded(json.dumps(whole(api)).encode("utf-16")),
    "Latin-1": lambda api: Recorded(
        json.dumps(whole(api, text="caf\xe9"), ensure_ascii=False).encode("latin-1")
    ),
    "another charset": lambda api: Recorded.of_json(
        whole(api), content_type="application/json; charset=utf-7"
    ),
    "the type of a text": lambda api: Recorded.of_json(whole(api), content_type="text/plain"),
    "the type of a page": lambda api: Recorded.of_json(whole(api), content_type="text/html"),
    "the type of a stream": lambda api: Recorded.of_json(
        whole(api), content_type="text/event-stream"
    ),
    "no type that is one": lambda api: Recorded.of_json(whole(api), content_type=";;"),
    "a stream that nobody wants": lambda api: sse(events(api)),
    "a body without end": lambda api: Recorded.of_json(whole(api), ending="drop"),
    "no end of the connection": lambda api: Recorded(b'{"choices', ending="hang"),
    "a length that is too large": lambda api: _raw(
        b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{}"
    ),
    "a length that is none": lambda api: _raw(b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n{}"),
    "chunks that are none": lambda api: _raw(
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n"
    ),
    "no HTTP": lambda api: _raw(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "no head": lambda api: _raw(b""),
    "a status that is none": lambda api: _raw(b"HTTP/1.1 OK fine\r\n\r\n"),
    "a header that is none": lambda api: _raw(b"HTTP/1.1 200 OK\r\n\xff\xfe\r\n\r\n{}"),
    "a header without end": lambda api: _raw(b"HTTP/1.1 200 OK\r\nx: " + b"x" * 2**20),
    "204": lambda api: _raw(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "304": lambda api: _raw(b"HTTP/1.1 304 Not Modified\r\n\r\n"),
    "100 without end": lambda api: _raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "two answers": lambda api: Recorded.of_json([whole(api), whole(api)]),
    "an answer in an answer": lambda api: Recorded.of_json({"data": whole(api)}),
    "an answer as a text": lambda api: Recorded.of_json(json.dumps(whole(api))),
    "unknown fields": lambda api: Recorded.of_json(
        {**whole(api), "novel": {"a": [1]}, "error": None}
    ),
    "an answer of another API": lambda api: Recorded.of_json(whole(APIS[APIS.index(api) - 1])),
    "a refusal": lambda api: Recorded.of_json(_refusal(api, "I can't.")),
    "a refusal without words": lambda api: Recorded.of_json(_refusal(api, "")),
    "a refusal as a list": lambda api: Recorded.of_json(_refusal(api, ["no"])),
    "nothing but thoughts": lambda api: Recorded.of_json(_thoughts(api)),
    "a call twice": lambda api: Recorded.of_json(_twice(api, "c", "c")),
    "calls without ids": lambda api: Recorded.of_json(_twice(api, None, None)),
}
_STREAMS: Mapping[str, Callable[[str, list[Any]], Recorded]] = {
    "[DONE] alone": lambda api, sent: sse([], done=b"data: [DONE]\n\n"),
    "nothing": lambda api, sent: sse([]),
    "comments alone": lambda api, sent: sse([b": ping\n\n"] * 9),
    "names without data": lambda api, sent: sse([b"event: message\n\n", b"id: 7\nretry: 1\n\n"]),
    "data that is no JSON": lambda api, sent: sse([sent[0], b"data: fine\n\n", *sent[1:]]),
    "null": lambda api, sent: sse([sent[0], b"data: null\n\n", *sent[1:]]),
    "a list": lambda api, sent: sse([b"data: []\n\n", *sent]),
    "a text": lambda api, sent: sse([b'data: "x"\n\n', *sent]),
    "an empty object": lambda api, sent: sse([sent[0], {}, *sent[1:]]),
    "an empty line of data": lambda api, sent: sse([b"data:\n\n", *sent]),
    "lines that end as on Windows": lambda api, sent: sse(sent, line=b"\r\n"),
    "lines that end as they did on a Mac": lambda api, sent: sse(sent, line=b"\r"),
    "a BOM": lambda api, sent: sse(sent, before=b"\xef\xbb\xbf"),
    "a byte at a time": lambda api, sent: replace(sse(sent), piece=1),
    "unknown events": lambda api, sent: sse([{"type": "novel", "object": "novel"}, *sent]),
    "the last event first": lambda api, sent: sse(sent[::-1]),
    "each event twice": lambda api, sent: sse([each for each in sent for _ in range(2)]),
    "no end": lambda api, sent: sse(sent[:-2]),
    "an end that is lost": lambda api, sent: replace(sse(sent), ending="drop"),
    "two ends": lambda api, sent: sse([*sent, *sent[-1:]]),
    "more after the end": lambda api, sent: sse([*sent, sent[0]]),
    "an event without its end": lambda api, sent: sse([*sent[:-1], b'data: {"type": "mess']),
    "an error": lambda api, sent: sse(
        [sent[0], {"type": "error", "error": {"message": "It broke"}}]
    ),
    "an error as a text": lambda api, sent: sse([sent[0], {"type": "error", "error": "It broke"}]),
    "an error before the end": lambda api, sent: sse(
        [*sent[:-1], {"type": "error", "error": {"message": "It broke"}}]
    ),
    "an error that is empty": lambda api, sent: sse(
        [sent[0], {"type": "error", "error": None}, *sent[1:]]
    ),
    "a body that is none": lambda api, sent: Recorded.of_json(
        whole(api), content_type="text/event-stream"
    ),
    "a body": lambda api, sent: Recorded.of_json(whole(api)),
    "a page": lambda api, sent: Recorded(
        b"<html><h1>Welcome</h1></html>", content_type="text/html"
    ),
    "gzip that is none": lambda api, sent: replace(sse(sent), headers={"content-encoding": "gzip"}),
    "an odd text": lambda api, sent: sse(_replaced(sent, FINE, 7)),
    "an odd list": lambda api, sent: sse(_replaced(sent, FINE, [FINE])),
    "half a character": lambda api, sent: sse(_replaced(sent, FINE, "\ud83d")),
    "indexes that are texts": lambda api, sent: sse(_replaced(sent, 0, "0")),
    "indexes that are null": lambda api, sent: sse(_replaced(sent, 0, None)),
    "indexes below zero": lambda api, sent: sse(_replaced(sent, 0, -1)),
    "huge indexes": lambda api, sent: sse(_replaced(sent, 0, 10**20)),
    "indexes that are lists": lambda api, sent: sse(_replaced(sent, 0, [0])),
}
_CALLED: Mapping[str, Callable[[str, list[Any]], Recorded]] = {
    "arguments as an object": lambda api, sent: sse(_replaced(sent, ARGUMENTS, {"text": "a"})),
    "arguments as a number": lambda api, sent: sse(_replaced(sent, ARGUMENTS, 42)),
    "arguments that are null": lambda api, sent: sse(_replaced(sent, ARGUMENTS, None)),
    "arguments that are cut off": lambda api, sent: sse(_replaced(sent, ARGUMENTS, '{"text": "a')),
    "an index that is null": lambda api, sent: sse(_replaced(sent, 0, None)),
    "an index that is a text": lambda api, sent: sse(_replaced(sent, 0, "0")),
    "an index that is a list": lambda api, sent: sse(_replaced(sent, 0, [0])),
    "a name that is null": lambda api, sent: sse(_replaced(sent, TOOL, None)),
    "a name that is a list": lambda api, sent: sse(_replaced(sent, TOOL, [TOOL])),
    "an id that is null": lambda api, sent: sse(_replaced(sent, "c", None)),
    "no end": lambda api, sent: sse(sent[:-2]),
    "the word alone": lambda api, sent: sse(sent[-2:]),
}


def _packed(api: str) -> bytes:
    return gzip.compress(json.dumps(whole(api)).encode())


def _raw(data: bytes) -> Recorded:
    return Recorded(b"", head=data, ending="drop")


def _refusal(api: str, words: Any) -> Json:
    response = whole(api, text=words)
    if api == "chat":
        response["choices"][0]["message"] = {"content": None, "refusal": words}
    elif api == "responses":
        response["output"][0]["content"] = [{"type": "refusal", "refusal": words}]
    else:
        response["stop_reason"] = "refusal"
    return response


def _thoughts(api: str) -> Json:
    response = whole(api, text="")
    if api == "chat":
        response["choices"][0]["message"]["reasoning_content"] = "Hm."
    elif api == "responses":
        response["output"] = [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
        ]
    else:
        response["content"] = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]
    return response


def _twice(api: str, *ids: Any) -> Json:
    response = whole(api, calls=True)
    place, list_ = {
        "chat": ("id", "tool_calls"),
        "responses": ("call_id", "output"),
        "anthropic": ("id", "content"),
    }[api]
    holder = response["choices"][0]["message"] if api == "chat" else response
    holder[list_] = [{**holder[list_][0], place: id} for id in ids]
    return response


def _with_status(status: int, body: str, headers: dict[str, str]) -> Callable[[str], Recorded]:
    return lambda api: Recorded(body.encode("latin-1"), status=status, headers=headers)


def _with_error(error: Json) -> Callable[[str], Recorded]:
    return lambda api: Recorded.of_json(
        whole(api) | {"error": error["error"]} if error.get("answer") else error
    )


def _in_place(place: str, odd: Any) -> Callable[[str], Recorded]:
    return lambda api: Recorded.of_json(edited(api, place, odd))


def _streamed(kind: Callable[[str, list[Any]], Recorded], calls: bool) -> Callable[[str], Recorded]:
    return lambda api: kind(api, events(api, calls=calls))


def _kinds() -> Iterator[tuple[str, Callable[[str], Recorded]]]:
    for place, odd in _VALUES["odd"].items():
        yield from ((f"{place} is {name}", _in_place(place, value)) for name, value in odd.items())
    bodies, statuses = _VALUES["bodies"], _VALUES["statuses"]
    yield from ((f"a body: {name}", _with_status(200, body, {})) for name, body in bodies.items())
    yield from (
        (f"in a 200: {name}", _with_error(error)) for name, error in _VALUES["errors"].items()
    )
    yield from ((f"a status: {name}", _with_status(*sent)) for name, sent in statuses.items())
    yield from ((f"sent: {name}", sent) for name, sent in _SENT.items())
    yield from ((f"streamed: {name}", _streamed(kind, False)) for name, kind in _STREAMS.items())
    yield from (
        (f"a streamed call: {name}", _streamed(kind, True)) for name, kind in _CALLED.items()
    )


KINDS: Mapping[str, Callable[[str], Recorded]] = dict(_kinds())


def table() -> dict[tuple[str, str], str]:
    """What follows each kind on each API, by the table beside this file."""
    lines = (Path(__file__).parent / "nonsense.txt").read_text().splitlines()
    rows = ([cell.strip() for cell in line.split("|")] for line in lines if "|" in line)
    return {
        (name, api): word for name, *words in rows for api, word in zip(APIS, words, strict=True)
    }


class NonsenseServer(RecordedServer):
    """Sends each model, by its name `API KIND`, what is under that name first, and then answers
    well.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first: dict[str, Recorded] = {}
        self.asked: Counter[str] = Counter()

    def answer_to(self, request: Received) -> Recorded:
        model = request.body.get("model")
        if model is None:  # What a redirect has made of it.
            return Recorded(b"", status=302, headers={"location": "/round"})
        self.asked[model] += 1
        return self.first.pop(model, None) or Recorded.of_json(whole(model.partition(" ")[0]))
