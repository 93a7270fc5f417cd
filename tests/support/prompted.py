"""Models that know no tools, and write actions."""

from __future__ import annotations

from perdure.providers.prompted.call import FINAL
from perdure.testing import ScriptedReply, ScriptedRequest, says
from perdure.testing.script import Script

ECHO = '{"tool": "echo", "arguments": {"text": "hello"}}'
NO_TOOLS = "registry.ollama.ai/library/gemma3:4b does not support tools"


def echo(text: str = "") -> str:
    return f"Echo: {text}"


def is_final(request: ScriptedRequest) -> bool:
    """Whether the model is asked for its answer; Anthropic's API has the user's messages in a row
    as one.
    """
    return request.messages[-1].text.endswith(FINAL)


def two_phases(*actions: str | ScriptedReply, answer: str | ScriptedReply = "Done") -> Script:
    """The replies to the calls in which the model may act, in order, and the reply where it has to
    answer.
    """

    def reply(request: ScriptedRequest) -> ScriptedReply:
        given = answer if is_final(request) else actions[request.step]
        return says(given) if isinstance(given, str) else given

    return reply


def without_tools(script: Script) -> Script:
    """The script of a model that refuses tools, as Ollama says it."""

    def reply(request: ScriptedRequest) -> ScriptedReply:
        assert callable(script)
        if request.body.get("tools"):
            return ScriptedReply(
                status=400, error={"error": {"message": NO_TOOLS, "type": "api_error"}}
            )
        return script(request)

    return reply
