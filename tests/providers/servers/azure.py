"""Azure OpenAI, by its API v1.

As OpenAI; `presence_penalty` and the like are refused by reasoning deployments: "Unsupported
parameter". BerriAI/litellm and langchain-ai/langchain have several reports.
"""

from .wires import ChatServer


class Azure(ChatServer):
    endpoint = "https://tested.openai.azure.com/openai/v1"
    takes = ".{1,40}"
    model_refuses = {
        "frequency_penalty": (
            "Unsupported parameter: 'frequency_penalty' is not supported with this model."
        )
    }
    declines = {
        "message": {"role": "assistant", "content": None},
        "finish_reason": "content_filter",
    }
