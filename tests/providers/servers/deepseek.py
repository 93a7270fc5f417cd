"""DeepSeek.

A message with calls has the `reasoning_content` that it came with: abhigyanpatwari/GitNexus#43
(2026-02-22), continuedev/continue#11285 (2026-03-11), hotovo/aider-desk#529 (2025-12-08). It only
takes text.
"""

from .wires import ChatServer


class DeepSeek(ChatServer):
    endpoint = "https://api.deepseek.com/v1"
    ids = "call_00_{n:024d}"
    gives = {"reasoning_content": "{mark}"}
    needs = {"reasoning_content": " "}
    wants_back = "calls"
    sees = False
    refuses = ("parallel_tool_calls", "seed")
    declines = {"message": {"role": "assistant", "content": ""}, "finish_reason": "content_filter"}
