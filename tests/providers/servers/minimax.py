"""MiniMax.

Ids that it gave go back exactly as they were: `tool result's tool id not found (2013)`,
openclaw/openclaw#65380 (2026-04-12), MiniMax-AI/MiniMax-M2#76 (2026-02-11). `invalid function
arguments json string`: earendil-works/pi#5468 (2026-06-19). `reasoning_details` go back.
"""

from .wires import ChatServer


class MiniMax(ChatServer):
    endpoint = "https://api.minimax.io/v1"
    ids = "call_function_{n:012d}_1"
    gives = {"reasoning_details": [{"type": "reasoning.text", "text": "{mark}", "index": 0}]}
    begins_with_user = True
    refuses = ("frequency_penalty", "presence_penalty", "seed")
    error_form = (
        400,
        {
            "type": "error",
            "error": {"type": "bad_request_error", "message": "{text} (2013)", "http_code": "400"},
            "request_id": "r",
        },
    )
