"""LM Studio.

Ids of nine digits; templates of models that take texts alone: lmstudio-ai/lmstudio-bug-tracker#535
(2025-03-19) and others.
"""

from .wires import ChatServer


class LMStudio(ChatServer):
    endpoint = "http://localhost:1234/v1"
    ids = "{n:09d}"
    takes = "[a-zA-Z0-9]{9}"
    gives = {"reasoning_content": "{mark}"}
    wants_back = "calls"
    sees = False
    begins_with_user = True
    error_form = (400, {"error": "{text}"})
