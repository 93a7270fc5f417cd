"""Cohere, by its compatibility API.

Unknown fields are refused with 422: OpenRouterTeam/openrouter-examples#71 (2026-03-23). Parallel
calls are not an option: oracle/langchain-oracle#266 (2026-07-22).
"""

from .wires import ChatServer


class Cohere(ChatServer):
    endpoint = "https://api.cohere.ai/compatibility/v1"
    ids = "{name}_{n:012d}"
    takes = "[a-zA-Z0-9_-]{1,64}"
    wants_back = "never"
    begins_with_user = True
    refuses = ("parallel_tool_calls", "max_completion_tokens")
    error_form = (422, {"id": "e", "message": "{text}"})
