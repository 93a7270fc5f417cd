"""OpenAI's Chat Completions.

Ids of calls have 40 characters at most: camel-ai/camel#2215 (2025-04-17), vercel/ai#5171,
anomalyco/opencode#12653 (2026-02-08). A schema with `anyOf` at its root is refused:
makenotion/notion-mcp-server#340. Reasoning models take no temperature: openai-agents-python and
others.
"""

from .wires import ChatServer


class OpenAI(ChatServer):
    endpoint = "https://api.openai.com/v1"
    takes = ".{1,40}"
    model_refuses = {
        "temperature": "Unsupported value: 'temperature' does not support 0.5 with this model. "
        "Only the default (1) value is supported."
    }
