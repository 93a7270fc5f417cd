"""llama.cpp's server.

Arguments of earlier calls that are not JSON are refused: ggml-org/llama.cpp#25583 (2026-07-12).
Templates raise where the user does not speak first.
"""

from .wires import ChatServer


class LlamaCpp(ChatServer):
    endpoint = "http://127.0.0.1:8080/v1"
    ids = "{n:032d}"
    takes = "[a-zA-Z0-9]{9}"
    gives = {"reasoning_content": "{mark}"}
    wants_back = "calls"
    begins_with_user = True
    error_form = (
        400,
        {"error": {"code": 400, "message": "{text}", "type": "invalid_request_error"}},
    )
