"""Fireworks.

`reasoning_content` goes back beside calls; other unknown fields are refused (`Extra inputs are not
permitted`): docs.fireworks.ai (read 2026-11).
"""

from .wires import ChatServer


class Fireworks(ChatServer):
    endpoint = "https://api.fireworks.ai/inference/v1"
    ids = "call_{n:024x}"
    gives = {"reasoning_content": "{mark}"}
    wants_back = "calls"
    refuses = ("max_completion_tokens",)
    error_form = (
        400,
        {"error": {"object": "error", "type": "invalid_request_error", "message": "{text}"}},
    )
