"""Models on loopback that keep prompt caches by their providers' published rules, and count what
came from them.

Anthropic's (`/v1/messages`), and OpenAI's (`/v1/chat/completions`, `/v1/responses`) of both
generations, by the model's name. A token is 4 characters. What is asked for, and how often, stands
in the system message, as in `benchmarks.model_server`: `rounds=60 calls=1`.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

Json = dict[str, Any]

CHARS_PER_TOKEN = 4
MINIMUM = 1024
"""Tokens of the shortest prefix that is kept."""
STEP = 128
"""Tokens by which the first generation of OpenAI's rules cuts prefixes."""
LOOKBACK = 20
"""Blocks, the marked one included, at which Anthropic looks for what it has kept."""
MARKS = 4
"""Anthropic's refuses more, OpenAI's writes no more."""
SECONDS = {"5m": 300.0, "1h": 3600.0, "30m": 1800.0, "12h": 43200.0}

_ROUNDS = re.compile(r"rounds=(\d+) calls=(\d+)")
_ROUND = re.compile(r'\\*"round\\*":\s*(\d+)')
_NEW = re.compile(r"gpt-(?:5\.[6-9]|[6-9])")
_FINAL = "Now provide your final response"


class Tokens(NamedTuple):
    """The input of one call, as the provider bills it."""

    plain: int
    read: int = 0
    written: int = 0
    written_1h: int = 0


class Refused(Exception):
    """The request is one that the API answers with 400."""


class Block(NamedTuple):
    """A piece of the prompt, at whose end a mark may stand."""

    text: str
    mark: str = ""
    """How long the prefix is kept that ends here; "" where there is no mark."""


class Store:
    """The prefixes that are kept, each until it expires; reading one renews it."""

    def __init__(self, clock: Any = time.monotonic) -> None:
        self.clock = clock
        self._expiry: dict[str, tuple[float, float]] = {}

    def has(self, prefix: str) -> bool:
        end, seconds = self._expiry.get(prefix, (0.0, 0.0))
        if end <= self.clock():
            return False
        self._expiry[prefix] = (self.clock() + seconds, seconds)
        return True

    def keep(self, prefix: str, seconds: float) -> None:
        self._expiry[prefix] = (self.clock() + seconds, seconds)


def ends_of(blocks: Sequence[Block], scope: str) -> list[tuple[str, int]]:
    """For each block, the digest of the prompt up to its end, and how many tokens that is."""
    digest, chars, ends = scope, 0, []
    for block in blocks:
        digest = blake2b(block.text.encode(), key=digest.encode()[:64], digest_size=16).hexdigest()
        chars += len(block.text)
        ends.append((digest, chars // CHARS_PER_TOKEN))
    return ends


def anthropic_tokens(body: Json, store: Store) -> Tokens:
    """Raises Refused."""
    blocks = list(_anthropic_blocks(body))
    marks = [index for index, block in enumerate(blocks) if block.mark]
    if len(marks) > MARKS:
        raise Refused(
            f"A maximum of {MARKS} blocks with cache_control may be provided. Found {len(marks)}."
        )
    lifetimes = [blocks[index].mark for index in marks]
    if lifetimes != sorted(lifetimes):
        raise Refused(
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
        )
    ends = ends_of(blocks, body["model"])
    total = ends[-1][1]
    found = [
        ends[index][1]
        for mark in marks
        for index in range(mark, max(-1, mark - LOOKBACK), -1)
        if ends[index][1] >= MINIMUM and store.has(ends[index][0])
    ]
    read = max(found, default=0)
    kept = [index for index in marks if ends[index][1] >= MINIMUM]
    for index in kept:
        store.keep(ends[index][0], SECONDS[blocks[index].mark])
    written = max(0, ends[kept[-1]][1] - read) if kept else 0
    is_longer = bool(kept) and blocks[kept[-1]].mark == "1h"
    return Tokens(total - read - written, read, written, written if is_longer else 0)


def _anthropic_blocks(body: Json) -> Iterator[Block]:
    automatic = body.get("cache_control")
    groups: list[tuple[str, list[Json]]] = [("tools", body.get("tools") or [])]
    system = body.get("system") or []
    groups.append(
        ("system", [{"type": "text", "text": system}] if isinstance(system, str) else system)
    )
    # These change what the messages are to the model, but not what comes before them.
    of_messages = json.dumps([body.get("tool_choice"), body.get("thinking")])
    for turn in body["messages"]:
        content = turn["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        groups.append((turn["role"] + of_messages, parts))
    last = next((index for index in reversed(range(len(groups))) if groups[index][1]), 0)
    for number, (name, parts) in enumerate(groups):
        for index, part in enumerate(parts):
            own = part.get("cache_control")
            if own and part.get("type") in ("thinking", "redacted_thinking"):
                raise Refused("thinking.cache_control: Extra inputs are not permitted")
            is_end = automatic and number == last and index == len(parts) - 1
            mark = own or (automatic if is_end else None)
            text = json.dumps({key: value for key, value in part.items() if key != "cache_control"})
            yield Block(("" if index else name) + text, mark.get("ttl", "5m") if mark else "")


def openai_tokens(body: Json, store: Store) -> Tokens:
    """By the rules for the model's generation."""
    blocks = list(_openai_blocks(body))
    key = (
        body.get("prompt_cache_key")
        or blake2b("".join(block.text for block in blocks)[:1024].encode()).hexdigest()
    )
    scope = blake2b(f"{body['model']} {key}".encode(), digest_size=16).hexdigest()
    return (
        _by_marks(body, blocks, scope, store)
        if _NEW.match(body["model"])
        else _by_steps(blocks, scope, store)
    )


def _by_steps(blocks: Sequence[Block], scope: str, store: Store) -> Tokens:
    whole, size = "".join(block.text for block in blocks), STEP * CHARS_PER_TOKEN
    steps = [Block(whole[start : start + size]) for start in range(0, len(whole) - size + 1, size)]
    ends, read = ends_of(steps, scope), 0
    for digest, tokens in ends:
        read = tokens if tokens >= MINIMUM and store.has(digest) else read
        store.keep(digest, SECONDS["5m"])
    return Tokens(len(whole) // CHARS_PER_TOKEN - read, read)


def _by_marks(body: Json, blocks: Sequence[Block], scope: str, store: Store) -> Tokens:
    options = body.get("prompt_cache_options") or {}
    is_implicit = options.get("mode", "implicit") == "implicit"
    ends = ends_of(blocks, scope)
    marked = [index for index, block in enumerate(blocks) if block.mark]
    kept = marked[-(MARKS - is_implicit) :] + ([len(blocks) - 1] if is_implicit else [])
    # Only where something was kept can something be found, however similar the rest is.
    read = (
        max(
            (tokens for digest, tokens in ends if tokens >= MINIMUM and store.has(digest)),
            default=0,
        )
        if kept
        else 0
    )
    kept = [index for index in kept if ends[index][1] >= MINIMUM]
    for index in kept:
        store.keep(ends[index][0], SECONDS[options.get("ttl", "30m")])
    written = max(0, ends[kept[-1]][1] - read) if kept else 0
    return Tokens(ends[-1][1] - read - written, read, written)


def _openai_blocks(body: Json) -> Iterator[Block]:
    if body.get("tools"):
        yield Block(json.dumps(body["tools"]))
    if body.get("text", body.get("response_format")):
        yield Block(json.dumps(body.get("text", body.get("response_format"))))
    if body.get("instructions"):
        yield Block("system" + body["instructions"])
    for item in body.get("messages") or body.get("input") or []:
        content = item.get("content")
        parts: list[Json] = (
            content if isinstance(content, list) else [{"type": "text", "text": content}]
        )
        head = json.dumps({key: value for key, value in item.items() if key != "content"})
        for index, part in enumerate(parts):
            mark = "explicit" if part.get("prompt_cache_breakpoint") else ""
            text = json.dumps(
                {key: value for key, value in part.items() if key != "prompt_cache_breakpoint"}
            )
            yield Block(("" if index else head) + text, mark)


class CacheServer:
    """Serves all three APIs in threads of this process, as a context manager."""

    def __init__(self, clock: Any = time.monotonic) -> None:
        self.requests: list[Json] = []
        self.tokens: list[Tokens] = []
        """Of each call, in order."""
        self._store = Store(clock)
        self._guard = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        served = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = served.answer(self.path, body)
                content = json.dumps(answer).encode()
                fields = f"Content-Type: application/json\r\nContent-Length: {len(content)}"
                self.wfile.write(f"HTTP/1.1 {status} -\r\n{fields}\r\n\r\n".encode() + content)

            def log_message(self, format: str, *args: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, body: Json) -> tuple[int, Json]:
        """The status and the body."""
        count = anthropic_tokens if path.endswith("/messages") else openai_tokens
        with self._guard:
            self.requests.append(body)
            try:
                tokens = count(body, self._store)
            except Refused as refused:
                return 400, {
                    "type": "error",
                    "error": {"type": "invalid_request_error", "message": str(refused)},
                }
            self.tokens.append(tokens)
        said = reply_to(body)
        if path.endswith("/messages"):
            return 200, _anthropic_answer(body, said, tokens)
        return 200, (_chat_answer if path.endswith("/completions") else _response)(
            body, said, tokens
        )


def reply_to(body: Json) -> str | list[Json]:
    """What the model says: a text, or the arguments of the calls that it asks for."""
    items = body.get("messages") or body.get("input") or []
    asked = _ROUNDS.search(json.dumps([body.get("system"), body.get("instructions"), items[:1]]))
    assert asked is not None
    last = json.dumps(items[-1])
    if _FINAL in last:
        return "That is all."
    is_result = (
        items[-1].get("role") == "tool" or "function_call_output" in last or "tool_result" in last
    )
    done = (
        [int(number) for number in _ROUND.findall(json.dumps(items[-80:]))]
        if is_result or "[Step " in last
        else []
    )
    following = done[-1] + 1 if done else 1
    calls = [{"round": following, "part": part} for part in range(int(asked[2]))]
    if "## Available Tools" in json.dumps(
        [body.get("system"), body.get("instructions"), items[:1]]
    ):
        return (
            json.dumps({"tool": "look_up", "arguments": calls[0]})
            if following <= int(asked[1])
            else "{}"
        )
    return calls if following <= int(asked[1]) else "That is all."


def _anthropic_answer(body: Json, said: str | list[Json], tokens: Tokens) -> Json:
    calls = [] if isinstance(said, str) else said
    content: list[Json] = [{"type": "text", "text": said}] if isinstance(said, str) else []
    content += [
        {"type": "tool_use", "id": _id(call), "name": "look_up", "input": call} for call in calls
    ]
    usage = {
        "input_tokens": tokens.plain,
        "cache_read_input_tokens": tokens.read,
        "cache_creation_input_tokens": tokens.written,
        "cache_creation": {
            "ephemeral_5m_input_tokens": tokens.written - tokens.written_1h,
            "ephemeral_1h_input_tokens": tokens.written_1h,
        },
        "output_tokens": _size(said),
    }
    reason = "tool_use" if calls else "end_turn"
    head = {
        "id": "msg",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "stop_reason": reason,
    }
    return {**head, "content": content, "usage": usage}


def _chat_answer(body: Json, said: str | list[Json], tokens: Tokens) -> Json:
    calls = [] if isinstance(said, str) else said
    message: Json = {"role": "assistant", "content": said if isinstance(said, str) else None}
    if calls:
        message["tool_calls"] = [
            {
                "id": _id(call),
                "type": "function",
                "function": {"name": "look_up", "arguments": json.dumps(call)},
            }
            for call in calls
        ]
    read = sum(tokens[:3])
    usage = {
        "prompt_tokens": read,
        "completion_tokens": _size(said),
        "total_tokens": read + _size(said),
        "prompt_tokens_details": {
            "cached_tokens": tokens.read,
            "cache_write_tokens": tokens.written,
        },
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    head = {"id": "chatcmpl", "object": "chat.completion", "created": 0, "model": body["model"]}
    return {**head, "choices": [choice], "usage": usage}


def _response(body: Json, said: str | list[Json], tokens: Tokens) -> Json:
    output: list[Json]
    if isinstance(said, str):
        parts = [{"type": "output_text", "text": said, "annotations": []}]
        output = [
            {
                "type": "message",
                "id": "m",
                "role": "assistant",
                "status": "completed",
                "content": parts,
            }
        ]
    else:
        head = {"type": "function_call", "name": "look_up", "status": "completed"}
        output = [
            {**head, "id": _id(call), "call_id": _id(call), "arguments": json.dumps(call)}
            for call in said
        ]
    read = sum(tokens[:3])
    usage = {
        "input_tokens": read,
        "output_tokens": _size(said),
        "total_tokens": read + _size(said),
        "input_tokens_details": {
            "cached_tokens": tokens.read,
            "cache_write_tokens": tokens.written,
        },
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {
        "id": "resp",
        "object": "response",
        "status": "completed",
        "model": body["model"],
        "output": output,
    } | {"usage": usage}


def _id(call: Json) -> str:
    return f"call_{call['round']}_{call['part']}"


def _size(said: str | list[Json]) -> int:
    return len(json.dumps(said)) // CHARS_PER_TOKEN
