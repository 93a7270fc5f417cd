"""Groq.

`property 'reasoning_content' is unsupported`, and `'reasoning'` as well: SimonSchubert/Kai#265
(2026-05-16), janhq/jan#8136 (2026-05-13), karthink/gptel#774 (2025-04-10), although its own answers
have `reasoning`.
"""

from .wires import ChatServer


class Groq(ChatServer):
    endpoint = "https://api.groq.com/openai/v1"
    ids = "call_{n:04d}"
    takes = "[a-zA-Z0-9_.:-]{1,64}"
    gives = {"reasoning": "{mark}"}
    wants_back = "never"
    refuses = ("frequency_penalty", "presence_penalty")
