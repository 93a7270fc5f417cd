"""Replies of models that are cut off at any byte, and which of their calls were whole in what was
sent.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from random import Random
from typing import Any, Literal, NamedTuple

from .recorded_server import Received, Recorded, RecordedServer

Json = dict[str, Any]
Api = Literal["chat", "responses", "anthropic"]
APIS: tuple[Api, ...] = ("chat", "responses", "anthropic")
TOOLS = ("delete_rows", "send", "look")
EARLY = {"chat": "length", "responses": "max_output_tokens", "anthropic": "max_tokens"}
ENDED = {"chat": "tool_calls", "responses": "completed", "anthropic": "tool_use"}
USAGE = {
    "prompt_tokens": 7,
    "completion_tokens": 5,
    "total_tokens": 12,
    "input_tokens": 7,
    "output_tokens": 5,
}


class Called(NamedTuple):
    """A call that the model makes, and its arguments as far as it has written them."""

    id: str
    name: str
    arguments: str


class Sent(NamedTuple):
    """A call of a reply, as far as it was sent."""

    id: str
    is_whole: bool
    """Whether its arguments are there to their last character."""
    is_marked: bool
    """Whether what was sent says so, too: it has to be executed."""


class Piece(NamedTuple):
    """Some bytes of a body."""

    data: bytes
    closes: int | None = None
    """Which call is whole with them."""
    ends: bool = False
    """Whether the reply is whole with them."""


def random_value(random: Random, depth: int = 0) -> Any:
    """A JSON value; objects within objects, and brackets and quotes in texts."""
    match random.choice(
        ["text", "number", "word", "empty"] + ["object", "list"] * (2 if depth < 3 else 0)
    ):
        case "text":
            return "".join(
                random.choices('ab {}[]",:\\\n\u00e9\u20ac\U0001f600', k=random.randint(0, 9))
            )
        case "number":
            return random.choice([0, -1, 12345, 1.5, 1e-7, 10**15])
        case "word":
            return random.choice([None, True, False])
        case "empty":
            return random.choice([{}, [], ""])
        case "object":
            return random_object(random, depth + 1)
    return [random_value(random, depth + 1) for _ in range(random.randint(1, 3))]


def random_object(random: Random, depth: int = 0) -> Json:
    return {
        f"{random.choice('abcd')}{n}": random_value(random, depth)
        for n in range(random.randint(1, 3))
    }


class CutReply:
    """A model whose first reply is cut off; then it makes the calls that have no result.

    `number` is that of the case, and decides everything.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._random = random = Random(number)
        self.api = APIS[number % 3]
        self.streams = number // 3 % 2 == 0
        self.requests = 0
        self.calls = [self._call(index) for index in range(random.randint(1, 4))]
        self.arguments = {called.id: called.arguments for called in self.calls}
        self._text = random.choice(["", "", "Let me see. \U0001f600"])
        ways = ["bytes", "tokens", "gateway"] if self.streams else ["bytes", "tokens"]
        self.way = random.choice(ways)
        self.sent: list[Sent] = []
        self._first = {
            "bytes": self._cut_bytes,
            "tokens": self._cut_tokens,
            "gateway": self._cut_gateway,
        }[self.way]()

    def result_of(self, call_id: str) -> str:
        """What the tool of a call gives back."""
        return f"did {self.number}.{call_id[:2]};"

    def left(self, texts: Iterable[str]) -> list[Called]:
        """Calls that have no result among the texts."""
        written = "".join(texts)
        return [called for called in self.calls if self.result_of(called.id) not in written]

    def answer(self, request: Json) -> Recorded:
        self.requests += 1
        if self.requests == 1:
            return self._first
        left = [
            called._replace(id=f"{called.id}again{self.requests}")
            for called in self.left([json.dumps(request)])
        ]
        return self._recorded(
            b"".join(piece.data for piece in self._pieces("", left, ENDED[self.api]))
        )

    def _call(self, index: int) -> Called:
        random = self._random
        arguments = json.dumps(
            random_object(random),
            ensure_ascii=random.random() < 0.5,
            indent=random.choice([None, None, 1]),
        )
        return Called(f"c{index}", random.choice(TOOLS), arguments)

    def _cut_bytes(self) -> Recorded:
        """The connection is lost, or ends as if all had come."""
        pieces = self._pieces(self._text, self.calls, ENDED[self.api])
        body = b"".join(piece.data for piece in pieces)
        at = self._random.randrange(len(body))
        self._note(_until(pieces, at), is_marked_early=False)
        ending: Literal["drop", "complete"] = self._random.choice(["drop", "complete"])
        return self._recorded(body[:at], ending)

    def _cut_gateway(self) -> Recorded:
        """A proxy loses the stream between two events, and closes it properly."""
        pieces = self._pieces(self._text, self.calls, ENDED[self.api])
        end = next(index for index, piece in enumerate(pieces) if piece.ends)
        sent = pieces[: self._random.randint(0, end)]
        self._note(sent, is_marked_early=True)
        closing = (
            _event({"type": "message_stop"}) if self.api == "anthropic" else b"data: [DONE]\n\n"
        )
        return self._recorded(b"".join(piece.data for piece in sent) + closing)

    def _cut_tokens(self) -> Recorded:
        """The server closes the reply around what the model has written by then."""
        last = self._random.randrange(len(self.calls))
        whole = self.calls[last].arguments
        cut = self.calls[last]._replace(arguments=whole[: self._random.randint(0, len(whole))])
        shows_text = self.streams or self.api != "anthropic"
        # Some servers say that such a reply has ended well. Nobody can know it of arguments that
        # have not begun.
        is_false = shows_text and cut.arguments.strip() and self._random.random() < 0.3
        word = ENDED[self.api] if is_false else EARLY[self.api]
        is_whole = cut.arguments == whole
        self.sent = [Sent(called.id, True, True) for called in self.calls[:last]]
        self.sent.append(Sent(cut.id, is_whole, is_whole and shows_text))
        pieces = self._pieces(self._text, [*self.calls[:last], cut], word, is_open=not is_whole)
        return self._recorded(b"".join(piece.data for piece in pieces))

    def _note(self, sent: list[Piece], *, is_marked_early: bool) -> None:
        has_ended = any(piece.ends for piece in sent)
        closed = {piece.closes for piece in sent}
        self.sent = [
            Sent(
                called.id,
                is_whole := has_ended or index in closed,
                is_whole and (has_ended or is_marked_early),
            )
            for index, called in enumerate(self.calls)
        ]

    def _pieces(
        self, text: str, calls: list[Called], word: str, *, is_open: bool = False
    ) -> list[Piece]:
        if self.streams:
            return list(_STREAMED[self.api](text, calls, word, is_open, self._random))
        body = json.dumps(_WHOLE[self.api](text, calls, word, is_open), ensure_ascii=False).encode()
        return [Piece(body, ends=True)]

    def _recorded(self, body: bytes, ending: Literal["drop", "complete"] = "complete") -> Recorded:
        packed = self._random.random() < 0.2
        return Recorded(
            gzip.compress(body, 1) if packed else body,
            content_type="text/event-stream" if self.streams else "application/json",
            headers={"content-encoding": "gzip"} if packed else {},
            ending=ending,
            piece=self._random.choice([0, 0, 0, 301]),
        )


class CutServer(RecordedServer):
    """Plays each model by its name, the number of its case."""

    def __init__(self) -> None:
        super().__init__()
        self.cases: dict[str, CutReply] = {}

    def answer_to(self, request: Received) -> Recorded:
        return self.cases[request.body["model"]].answer(request.body)


def _until(pieces: list[Piece], at: int) -> list[Piece]:
    """Those of which the first `at` bytes have all."""
    whole, end = [], 0
    for piece in pieces:
        end += len(piece.data)
        if end <= at:
            whole.append(piece)
    return whole


def _chat(text: str, calls: list[Called], word: str, is_open: bool) -> Json:
    functions = [{"name": called.name, "arguments": called.arguments} for called in calls]
    asked = [
        {"id": called.id, "function": function}
        for called, function in zip(calls, functions, strict=True)
    ]
    message = {"role": "assistant", "content": text or None, "tool_calls": asked or None}
    return {"id": "x", "choices": [{"message": message, "finish_reason": word}], "usage": USAGE}


def _responses(text: str, calls: list[Called], word: str, is_open: bool) -> Json:
    said = [{"type": "message", "content": [{"type": "output_text", "text": text}]}] if text else []
    items = [*said, *(_item(called) for called in calls)]
    if word == EARLY["responses"]:
        items[-1] |= {"status": "incomplete"} if is_open else {}
        return {
            "id": "r",
            "status": "incomplete",
            "incomplete_details": {"reason": word},
            "output": items,
            "usage": USAGE,
        }
    return {"id": "r", "status": "completed", "output": items, "usage": USAGE}


def _item(called: Called) -> Json:
    return {
        "type": "function_call",
        "call_id": called.id,
        "name": called.name,
        "arguments": called.arguments,
    }


def _anthropic(text: str, calls: list[Called], word: str, is_open: bool) -> Json:
    said = [{"type": "text", "text": text}] if text else []
    blocks = [
        {
            "type": "tool_use",
            "id": called.id,
            "name": called.name,
            "input": _closed(called.arguments),
        }
        for called in calls
    ]
    return {"id": "a", "content": [*said, *blocks], "stop_reason": word, "usage": USAGE}


def _closed(arguments: str) -> Any:
    """What a server makes of arguments that were cut off, where it sends values: their longest
    readable beginning.
    """
    for end in range(len(arguments), 0, -1):
        for closing in ("", "}", '"}', "]}", "}}", '"]}', '"}}', "null}"):
            try:
                value = json.loads(arguments[:end] + closing)
                json.dumps(value, ensure_ascii=False).encode()
                return value
            except ValueError:
                continue
    return {}


def _event(event: Json) -> bytes:
    return b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n"


def _split(text: str, random: Random) -> list[str]:
    size = random.choice([3, 8, 40])
    return [text[start : start + size] for start in range(0, len(text), size)]


def _chat_stream(
    text: str, calls: list[Called], word: str, is_open: bool, random: Random
) -> Iterable[Piece]:
    def chunk(delta: Json, word: str | None = None, closes: int | None = None) -> Piece:
        choice = {"index": 0, "delta": delta, "finish_reason": word}
        return Piece(_event({"id": "x", "choices": [choice]}), closes, ends=word is not None)

    if text:
        yield chunk({"role": "assistant", "content": text})
    for index, called in enumerate(calls):
        function = {"name": called.name, "arguments": ""}
        yield chunk(
            {
                "tool_calls": [
                    {"index": index, "id": called.id, "type": "function", "function": function}
                ]
            }
        )
        split = _split(called.arguments, random)
        for number, piece in enumerate(split, 1):
            delta = {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            yield chunk(delta, closes=index if number == len(split) else None)
    yield chunk({}, word)
    yield Piece(_event({"id": "x", "choices": [], "usage": USAGE}))
    yield Piece(b"data: [DONE]\n\n")


def _responses_stream(
    text: str, calls: list[Called], word: str, is_open: bool, random: Random
) -> Iterable[Piece]:
    whole = _responses(text, calls, word, is_open)
    said = len(whole["output"]) - len(calls)
    for index, item in enumerate(whole["output"]):
        opened = {
            "type": "response.output_item.added",
            "output_index": index,
            "item": {**item, "arguments": ""},
        }
        yield Piece(_event(opened))
        if index < said:
            yield Piece(
                _event({"type": "response.output_text.delta", "output_index": index, "delta": text})
            )
        for piece in _split(item.get("arguments", ""), random):
            delta = {
                "type": "response.function_call_arguments.delta",
                "output_index": index,
                "delta": piece,
            }
            yield Piece(_event(delta))
        closed = {"type": "response.output_item.done", "output_index": index, "item": item}
        yield Piece(_event(closed), closes=index - said if index >= said else None)
    end = {
        "type": f"response.{whole['status']}",
        "response": whole | ({"output": []} if random.random() < 0.5 else {}),
    }
    yield Piece(_event(end), ends=True)


def _anthropic_stream(
    text: str, calls: list[Called], word: str, is_open: bool, random: Random
) -> Iterable[Piece]:
    yield Piece(
        _event(
            {
                "type": "message_start",
                "message": {"id": "a", "content": [], "usage": {"input_tokens": 7}},
            }
        )
    )
    if text:
        yield Piece(
            _event(
                {
                    "type": "content_block_start",
                    "index": 0,
                    "content_block": {"type": "text", "text": text},
                }
            )
        )
        yield Piece(_event({"type": "content_block_stop", "index": 0}))
    for number, called in enumerate(calls):
        index, is_last = number + bool(text), number == len(calls) - 1
        block = {"type": "tool_use", "id": called.id, "name": called.name, "input": {}}
        yield Piece(_event({"type": "content_block_start", "index": index, "content_block": block}))
        for piece in _split(called.arguments, random):
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield Piece(_event({"type": "content_block_delta", "index": index, "delta": delta}))
        if not (is_open and is_last and random.random() < 0.5):
            yield Piece(_event({"type": "content_block_stop", "index": index}), closes=number)
    yield Piece(
        _event(
            {"type": "message_delta", "delta": {"stop_reason": word}, "usage": {"output_tokens": 5}}
        )
    )
    yield Piece(_event({"type": "message_stop"}), ends=True)


_WHOLE = {"chat": _chat, "responses": _responses, "anthropic": _anthropic}
_STREAMED = {"chat": _chat_stream, "responses": _responses_stream, "anthropic": _anthropic_stream}
