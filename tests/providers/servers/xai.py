"""xAI's Grok.

`Argument not supported on this model: presencePenalty`: n8n-io/n8n#14581 (2025-04-13),
open-webui/open-webui#21266 (2026-02-08), langchain-ai/langchain#38335 (`stop`, 2026-06-20).
"""

from .wires import ChatServer


class XAI(ChatServer):
    endpoint = "https://api.x.ai/v1"
    ids = "call_{n:08d}"
    gives = {"reasoning_content": "{mark}"}
    wants_back = "never"
    refuses = ("frequency_penalty", "presence_penalty")
    model_refuses = {"seed": "Argument not supported on this model: seed"}
    error_form = (400, {"code": "Client specified an invalid argument", "error": "{text}"})
