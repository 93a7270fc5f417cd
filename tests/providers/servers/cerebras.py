"""Cerebras.

`property 'messages.2.assistant.reasoning_content' is unsupported`, `wrong_api_format`:
Kilo-Org/kilocode#10375 (2026-05-19), QwenLM/qwen-code#11045 (2026-09-04), proxysoul/Empryo#209
(2026-09-19).
"""

from .wires import ChatServer


class Cerebras(ChatServer):
    endpoint = "https://api.cerebras.ai/v1"
    ids = "{n:09x}"
    gives = {"reasoning": "{mark}"}
    wants_back = "never"
    sees = False
    refuses = ("frequency_penalty", "presence_penalty")
    error_form = (
        400,
        {
            "message": "{text}",
            "type": "invalid_request_error",
            "param": "validation_error",
            "code": "wrong_api_format",
        },
    )
