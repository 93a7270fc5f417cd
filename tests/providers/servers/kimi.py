"""Kimi, by Moonshot.

`reasoning_content is missing in assistant tool call message`: QuantumNous/new-api#3121
(2026-03-05), anomalyco/opencode#16318 (2026-03-06); its ids have dots and colons:
vybestack/llxprt-code#749 (2025-12-09).
"""

from .wires import ChatServer


class Kimi(ChatServer):
    endpoint = "https://api.moonshot.ai/v1"
    ids = "functions.{name}:{n}"
    takes = "[a-zA-Z0-9_.:-]{1,64}"
    gives = {"reasoning_content": "{mark}"}
    needs = {"reasoning_content": " "}
    refuses = ("parallel_tool_calls", "seed")
