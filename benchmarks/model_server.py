"""A model for benchmarks, in a process of its own: it asks for one tool call after the other, then
answers.

It looks only at both ends of a request, so that its own time does not grow with the conversation.
How often it asks, and for how many calls at a time, stands in the system message: `rounds=100
calls=1`.
"""

from __future__ import annotations

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ROUNDS = re.compile(rb"rounds=(\d+) calls=(\d+)")
ROUND = re.compile(rb'\\"round\\": ?(\d+)')
HEAD, TAIL = 4096, 64 * 1024


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = ROUNDS.search(body[:HEAD]) or ROUNDS.search(body)
        assert asked is not None
        rounds, calls = int(asked[1]), int(asked[2])
        done = [int(number) for number in ROUND.findall(body[-TAIL:])]
        following = done[-1] + 1 if done else 1
        answer = json.dumps(
            _completion(_message(following, calls) if following <= rounds else _answer())
        ).encode()
        head = (
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
            f"{len(answer)}\r\n\r\n"
        )
        self.wfile.write(head.encode() + answer)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def _message(round: int, calls: int) -> dict[str, object]:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": f"call_{round}_{index}",
                "type": "function",
                "function": {
                    "name": "look_up",
                    "arguments": json.dumps({"round": round, "part": index}),
                },
            }
            for index in range(calls)
        ],
    }


def _answer() -> dict[str, object]:
    return {"role": "assistant", "content": "That is all."}


def _completion(message: dict[str, object]) -> dict[str, object]:
    reason = "tool_calls" if "tool_calls" in message else "stop"
    return {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "created": 0,
        "model": "bench",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()
