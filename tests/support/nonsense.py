"""Kinds of nonsense that a model server may answer, each on three APIs; `nonsense.txt` says what
follows each.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from perdure.json_types import JsonObject, JsonView

from .recorded_server import Received, Recorded, RecordedServer

Json = JsonObject
CHAT, RESPONSES, ANTHROPIC = APIS = ("chat", "responses", "anthropic")
FINE = "It is fine."
TOOL = "look"
ARGUMENTS = '{"text": "a"}'


def whole(api: str, *, text: Any = FINE, calls: bool = False) -> Json:
    """A response with nothing wrong: an answer, or a call."""
    answer: Json = _replaced(_VALUES["answers"][api]["call" if calls else "text"], FINE, text)
    return answer


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
    return [*_spelled(_VALUES["events"][api]["call" if calls else "text"], [])]


DEEP: Any = json.loads("[" * 210 + "]" * 210)
LONG = "x" * 10_000
OF_CODE = {
    "$LONG": LONG,
    "$DEEP": DEEP,
    "$OPEN": "[" * 100_000,
    "$DIGITS": "1" * 5000,
    "$HEADER": "HTTP/1.1 200 OK\r\nx: " + "x" * 2**20,
    "$HUNDREDS": "HTTP/1.1 100 Continue\r\n\r\n" * 1000,
}
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
PARTS = {
    "$all": slice(None),
    "$first": slice(1),
    "$rest": slice(1, None),
    "$back": slice(None, None, -1),
    "$begun": slice(-2),
    "$but last": slice(-1),
    "$last": slice(-1, None),
    "$end": slice(-2, None),
}


def _spelled(parts: list[Any], sent: list[Any]) -> Iterator[Any]:
    """The events of a stream that `nonsense.json` spells: parts of another stream by their name,
    bytes as texts, events as objects.
    """
    for part in parts:
        if isinstance(part, str) and part in PARTS:
            yield from sent[PARTS[part]]
        else:
            yield part.encode("latin-1") if isinstance(part, str) else part


_SENT: Mapping[str, Callable[[str], Recorded]] = {
    "gzip without a word": lambda api: Recorded(_packed(api)),
    "gzip that is cut": lambda api: Recorded(
        _packed(api)[:-30], headers={"content-encoding": "gzip"}
    ),
    "gzip twice": lambda api: Recorded(
        gzip.compress(_packed(api)), headers={"content-encoding": "gzip"}
    ),
    "a BOM": lambda api: Recorded(b"\xef\xbb\xbf" + json.dumps(whole(api)).encode()),
    "UTF-16": lambda api: Recorded(json.dumps(whole(api)).encode("utf-16")),
    "Latin-1": lambda api: Recorded(
        json.dumps(whole(api, text="caf\xe9"), ensure_ascii=False).encode("latin-1")
    ),
    "a stream that nobody wants": lambda api: sse(events(api)),
    "a body without end": lambda api: Recorded.of_json(whole(api), ending="drop"),
    "no end of the connection": lambda api: Recorded(b'{"choices', ending="hang"),
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
    "lines that end as on Windows": lambda api, sent: sse(sent, line=b"\r\n"),
    "lines that end as they did on a Mac": lambda api, sent: sse(sent, line=b"\r"),
    "a BOM": lambda api, sent: sse(sent, before=b"\xef\xbb\xbf"),
    "a byte at a time": lambda api, sent: replace(sse(sent), piece=1),
    "each event twice": lambda api, sent: sse([each for each in sent for _ in range(2)]),
    "an end that is lost": lambda api, sent: replace(sse(sent), ending="drop"),
    "a body that is none": lambda api, sent: Recorded.of_json(
        whole(api), content_type="text/event-stream"
    ),
    "a body": lambda api, sent: Recorded.of_json(whole(api)),
    "a page": lambda api, sent: Recorded(
        b"<html><h1>Welcome</h1></html>", content_type="text/html"
    ),
    "gzip that is none": lambda api, sent: replace(sse(sent), headers={"content-encoding": "gzip"}),
}


def _packed(api: str) -> bytes:
    return gzip.compress(json.dumps(whole(api)).encode())


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


def _with_error(api: str, error: Json) -> Recorded:
    return Recorded.of_json(
        whole(api) | {"error": error["error"]} if error.get("answer") else error
    )


Sender = Callable[[str, Any], Recorded]


def _plain() -> Iterator[tuple[str, JsonView, Sender]]:
    """The kinds that are no stream: the beginning of their names, their values, how each is sent."""
    for place, odd in _VALUES["odd"].items():
        yield f"{place} is ", odd, lambda api, odd, at=place: Recorded.of_json(edited(api, at, odd))
    yield "a body: ", _VALUES["bodies"], lambda api, body: Recorded(body.encode("latin-1"))
    yield "in a 200: ", _VALUES["errors"], _with_error
    yield (
        "a status: ",
        _VALUES["statuses"],
        lambda api, sent: Recorded(sent[1].encode("latin-1"), status=sent[0], headers=sent[2]),
    )
    yield "sent: ", _SENT, lambda api, sent: sent(api)
    yield (
        "sent: ",
        _VALUES["heads"],
        lambda api, head: Recorded(b"", head=head.encode("latin-1"), ending="drop"),
    )
    yield (
        "sent: ",
        _VALUES["headers"],
        lambda api, headers: Recorded.of_json(whole(api), headers=headers),
    )
    yield (
        "sent: ",
        _VALUES["types"],
        lambda api, type: Recorded.of_json(whole(api), content_type=type),
    )


def _streamed() -> Iterator[tuple[str, JsonView, Sender]]:
    """The kinds that are streams."""
    yield "streamed: ", _STREAMS, lambda api, kind: kind(api, events(api))
    for name, calls in (("streamed", False), ("a streamed call", True)):
        parts, replaced = (
            ("streamed calls", "replaced in calls") if calls else ("streams", "replaced")
        )
        yield (
            f"{name}: ",
            _VALUES[parts],
            lambda api, parts, calls=calls: sse(_spelled(parts, events(api, calls=calls))),
        )
        yield (
            f"{name}: ",
            _VALUES[replaced],
            lambda api, pair, calls=calls: sse(_replaced(events(api, calls=calls), *pair)),
        )


def _kinds() -> Iterator[tuple[str, Callable[[str], Recorded]]]:
    for prefix, values, send in (*_plain(), *_streamed()):
        for name, value in values.items():
            yield f"{prefix}{name}", partial(_sent, send, value)


def _sent(send: Sender, value: Any, api: str) -> Recorded:
    return send(api, value)


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
