"""Anthropic's Messages.

Ids are `^[a-zA-Z0-9_-]+$`: CommandCodeAI/command-code#323 (2026-05-06). Each turn of results
answers exactly the calls before it. Thinking blocks go back unchanged, with their signatures. Newer
models take no temperature: qodo-ai/pr-agent#2456.
"""

from .wires import MessagesServer


class Anthropic(MessagesServer):
    endpoint = "https://api.anthropic.com"
    takes = "[a-zA-Z0-9_-]+"
    model_refuses = {"temperature": "`temperature` is deprecated for this model."}
