"""Ollama.

`cannot unmarshal string into Go struct field … ToolCallFunctionArguments`: aliasrobotics/cai#76,
neuron-core/neuron-ai#219 (2025-07-04), langchain-ai/langchain#36550.
"""

from .wires import ChatServer


class Ollama(ChatServer):
    endpoint = "http://localhost:11434/v1"
    ids = "call_o{n:07x}"
    gives = {"reasoning": "{mark}"}
    wants_back = "never"
    error_form = (
        400,
        {"error": {"message": "{text}", "type": "api_error", "param": None, "code": None}},
    )
