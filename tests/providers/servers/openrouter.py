"""OpenRouter.

`reasoning_details` go back unchanged, or Gemini 3 and others behind it refuse the request:
home-assistant/core#159812 (2025-12-27), OpenHands/software-agent-sdk#1500 (2025-12-23). The list is
streamed in items with an `index`.
"""

from .wires import ChatServer


class OpenRouter(ChatServer):
    endpoint = "https://openrouter.ai/api/v1"
    ids = "tool_0_{name}_{n:020d}"
    takes = ".{1,64}"
    gives = {"reasoning_details": [{"type": "reasoning.encrypted", "data": "{mark}", "index": 0}]}
    error_form = (
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {"raw": "{text}", "provider_name": "Google"},
            },
        },
    )
