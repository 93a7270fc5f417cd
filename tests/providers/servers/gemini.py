"""Gemini, by Google's endpoint for OpenAI's protocol.

The first call of a message has a thought signature, which goes back unchanged, or the request is
refused: securo-finance/securo#884 (2026-09-10), JetBrains/koog#1148 (2025-11-18),
openclaw/openclaw#72127 (2026-04-26). Google documents `skip_thought_signature_validator` for calls
of other models.
"""

from .wires import ChatServer


class Gemini(ChatServer):
    endpoint = "https://generativelanguage.googleapis.com/v1beta/openai"
    ids = "function-call-{n:019d}"
    refuses = ("parallel_tool_calls", "seed")
    gives_beside = {"extra_content": {"google": {"thought_signature": "{mark}"}}}
    needs_beside = ("extra_content",)
    wants_back = "calls"
    begins_with_user = True
    error_form = (
        400,
        [{"error": {"code": 400, "message": "{text}", "status": "INVALID_ARGUMENT"}}],
    )
    declines = {"finish_reason": "content_filter: PROHIBITED_CONTENT"}
