"""Replies of models that are cut off at any byte, and which of their calls were whole in what was
sent.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from itertools import accumulate, takewhile
from random import Random
from typing import Any, Literal, NamedTuple

from perdure.json_types import JsonObject
from perdure.messages import ToolCall
from perdure.testing import ScriptedReply
from perdure.testing.wires import anthropic, chat, responses
from perdure.testing.wires.chat import CountedReply, to_json
from perdure.testing.wires.table import Wire

from .recorded_server import Received, Recorded, RecordedServer

Json = JsonObject
Api = Literal["chat", "responses", "anthropic"]
APIS: tuple[Api, ...] = ("chat", "responses", "anthropic")
TOOLS = ("delete_rows", "send", "look")
EARLY = {"chat": "length", "responses": "max_output_tokens", "anthropic": "max_tokens"}
WIRES: dict[Api, Wire] = {"chat": chat, "responses": responses, "anthropic": anthropic}


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
        return self._recorded(b"".join(self._pieces("", left)))

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
        pieces = self._pieces(self._text, self.calls)
        at = self._random.randrange(sum(map(len, pieces)))
        ends = accumulate(map(len, pieces))
        self._note(pieces, sum(end <= at for end in ends), is_marked_early=False)
        ending: Literal["drop", "complete"] = self._random.choice(["drop", "complete"])
        return self._recorded(b"".join(pieces)[:at], ending)

    def _cut_gateway(self) -> Recorded:
        """A proxy loses the stream between two events, and closes it properly."""
        pieces = self._pieces(self._text, self.calls)
        sent = self._random.randint(0, self._end(pieces))
        self._note(pieces, sent, is_marked_early=True)
        is_done = {
            "chat": b"[DONE]",
            "responses": b"[DONE]",
            "anthropic": b'{"type":"message_stop"}',
        }
        return self._recorded(b"".join(pieces[:sent]) + b"data: " + is_done[self.api] + b"\n\n")

    def _cut_tokens(self) -> Recorded:
        """The server closes the reply around what the model has written by then."""
        last, least = self._random.randrange(len(self.calls)), int(self.api == "responses")
        whole = self.calls[last].arguments
        written = whole[: self._random.randint(least, len(whole))]
        shows_text = self.streams or self.api != "anthropic"
        # Some servers say that such a reply has ended well. Nobody can know it of arguments that
        # have not begun.
        is_false = shows_text and written.strip() and self._random.random() < 0.3
        self.sent = [Sent(called.id, True, True) for called in self.calls[:last]]
        is_whole = written == whole
        self.sent.append(Sent(self.calls[last].id, is_whole, is_whole and shows_text))
        shown = written if shows_text else json.dumps(_closed(written))
        calls = [*self.calls[:last], self.calls[last]._replace(arguments=shown)]
        word = None if is_false else EARLY[self.api]
        return self._recorded(b"".join(self._pieces(self._text, calls, word)))

    def _note(self, pieces: list[bytes], sent: int, *, is_marked_early: bool) -> None:
        """Note which calls the first pieces hold: where a reply with another end of the call, or
        with another call after it, differs, the call is whole, or closed.
        """
        has_ended = sent > self._end(pieces)
        for index, called in enumerate(self.calls):
            before = self.calls[:index]
            other = called._replace(arguments=called.arguments[:-1] + "]")
            spoiled = self._pieces(self._text, [*before, other])
            followed = self._pieces(self._text, [*before, called, Called("c9", "look", "{}")])
            is_whole = has_ended or (self.streams and sent > _common(pieces, spoiled))
            is_closed = has_ended or (is_marked_early and sent >= _common(pieces, followed))
            self.sent.append(Sent(called.id, is_whole, is_whole and is_closed))

    def _end(self, pieces: list[bytes]) -> int:
        """The place of the piece with which the reply has ended."""
        if self.api != "chat":
            return len(pieces) - 1
        return _common(pieces, self._pieces(self._text, self.calls, EARLY[self.api]))

    def _pieces(self, text: str, calls: list[Called], word: str | None = None) -> list[bytes]:
        asked = [ToolCall(**called._asdict()) for called in calls]
        reply = ScriptedReply(text=text, tool_calls=asked, finish_reason=word)
        given, wire = CountedReply(reply, 0, "m", 7, 0, 5, True), WIRES[self.api]
        return [*wire.stream(given)] if self.streams else [to_json(wire.answer(given))]

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


def _common(one: list[bytes], other: list[bytes]) -> int:
    """How many pieces two replies begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


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
