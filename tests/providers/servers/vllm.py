"""vLLM, on any host.

It parses the arguments of earlier calls, and one that is not an object's JSON ends the
conversation: vllm-project/vllm#48922 (2026-07-17), local-inference-lab/vllm#684 (2026-09-06).
Behind the chat template of a Mistral model, ids have nine letters and digits:
ml-explore/mlx-lm#1399 (2026-06-12).
"""

from .wires import ChatServer


class VLLM(ChatServer):
    dialect = "vllm"
    ids = "chatcmpl-tool-{n:032x}"
    takes = "[a-zA-Z0-9]{9}"
    gives = {"reasoning_content": "{mark}"}
    wants_back = "calls"
    begins_with_user = True
    refuses = ("max_completion_tokens",)
    error_form = (
        400,
        {
            "object": "error",
            "message": "{text}",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
    )
