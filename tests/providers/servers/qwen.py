"""Qwen, by Alibaba's compatible mode.

Thinking is in `reasoning_content`, which goes back beside calls; a first system message is followed
by the user's: help.aliyun.com/zh/model-studio (read 2026-11).
"""

from .wires import ChatServer


class Qwen(ChatServer):
    endpoint = "https://dashscope.aliyuncs.com/compatible-mode/v1"
    ids = "call_{n:022x}"
    gives = {"reasoning_content": "{mark}"}
    wants_back = "calls"
    begins_with_user = True
    refuses = ("max_completion_tokens",)
    error_form = (
        400,
        {
            "error": {
                "code": "invalid_parameter_error",
                "param": None,
                "message": "<400> InternalError.Algo.InvalidParameter: {text}",
                "type": "invalid_request_error",
            },
            "request_id": "r",
        },
    )
