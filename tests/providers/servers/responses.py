"""OpenAI's Responses.

A tool without `strict` counts as strict: open-webui/open-webui#30046,
langchain-ai/langchain#39309, vercel/ai#15889. Ids of calls have 64 characters at most. Reasoning
items go back with what they led to: openai/openai-agents-python#919, #1756.
"""

from .wires import ResponsesServer


class Responses(ResponsesServer):
    endpoint = "https://api.openai.com/v1"
    model_refuses = {
        "temperature": "Unsupported parameter: 'temperature' is not supported with this model."
    }

    @property
    def table_name(self) -> str:
        return "openai"
