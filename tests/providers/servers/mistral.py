"""Mistral.

Ids have nine letters and digits: langchain-ai/langchain#24668 (2024-07-25), openclaw/openclaw#57672
(2026-03-30), HKUDS/nanobot#1293 (2026-02-27). Unknown fields of a request are refused
(`extra_forbidden`).
"""

from .wires import ChatServer


class Mistral(ChatServer):
    endpoint = "https://api.mistral.ai/v1"
    ids = "M{n:08d}"
    takes = "[a-zA-Z0-9]{9}"
    refuses = ("stream_options", "max_completion_tokens", "seed")
    wants_back = "never"
    begins_with_user = True
    error_form = (
        422,
        {
            "object": "error",
            "message": {"detail": [{"type": "extra_forbidden", "loc": ["body"], "msg": "{text}"}]},
            "type": "invalid_request_error",
            "param": None,
            "code": None,
        },
    )
