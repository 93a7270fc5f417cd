"""GLM, by Z.ai.

`messages` without a user are refused with code 1214; so is a `tool_choice` other than `auto`:
vectorize-io/hindsight#4246 (2026-09-09). Thinking that is preserved between calls is
`reasoning_content`: docs.z.ai (read 2026-11).
"""

from .wires import ChatServer


class GLM(ChatServer):
    endpoint = "https://api.z.ai/api/paas/v4"
    ids = "call_-{n:019d}"
    gives = {"reasoning_content": "{mark}"}
    wants_back = "calls"
    begins_with_user = True
    refuses = ("tool_choice", "frequency_penalty", "presence_penalty", "seed")
    declines = {"message": {"role": "assistant", "content": ""}, "finish_reason": "sensitive"}
    error_form = (400, {"error": {"code": "1210", "message": "{text}"}})
