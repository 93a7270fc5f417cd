"""Gemini, by Vertex AI's endpoint for OpenAI's protocol.

Thought signatures as with Gemini, beside the call: earendil-works/pi#6733 (2026-07-16),
JohnnyZ93/oai-compatible-copilot#49 (2025-11-24).
"""

from .wires import ChatServer


class Vertex(ChatServer):
    endpoint = "https://aiplatform.googleapis.com/v1/projects/p/locations/global/endpoints/openapi"
    ids = "function-call-{n:019d}"
    refuses = ("parallel_tool_calls",)
    gives_beside = {"extra_content": {"google": {"thought_signature": "{mark}"}}}
    needs_beside = ("extra_content",)
    wants_back = "calls"
    begins_with_user = True
    error_form = (
        400,
        [{"error": {"code": 400, "message": "{text}", "status": "INVALID_ARGUMENT"}}],
    )
    declines = {"finish_reason": "content_filter: PROHIBITED_CONTENT"}
