"""An unknown server whose ids start again in each reply.

NousResearch/hermes-agent#111443, langchain-ai/langchainjs#10145, vellum-ai/vellum-assistant#320.
"""

from .wires import ChatServer


class Repeating(ChatServer):
    ids = "call_{i}"
    takes = "[a-zA-Z0-9]{9}"
    gives = {"reasoning_content": "{mark}"}
    wants_back = "calls"
    begins_with_user = True
