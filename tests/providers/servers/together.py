"""Together.

Limits are `max_tokens`; parallel calls are not an option:
docs.together.ai/reference/chat-completions (read 2026-11).
"""

from .wires import ChatServer


class Together(ChatServer):
    endpoint = "https://api.together.xyz/v1"
    gives = {"reasoning": "{mark}"}
    wants_back = "never"
    refuses = ("parallel_tool_calls", "max_completion_tokens")
    error_form = (
        400,
        {
            "id": "e",
            "error": {
                "message": "{text}",
                "type": "invalid_request_error",
                "param": None,
                "code": None,
            },
        },
    )
